/**
 * How long the numbers have been behind the stream. Some messages always are, while events trickle: each waits for its
 * batch. What counts is how long the oldest of them has waited.
 */
export class Lag {
  /** Ends of the stream that have been seen and are not counted yet, with when they were seen first. */
  private waiting: { seq: number; since: number }[] = [];

  /** Takes a snapshot's positions, and returns for how many milliseconds it is known to be behind. */
  observe(now: number, lastSeq: number, foldedSeq: number): number {
    this.waiting = this.waiting.filter((end) => end.seq > foldedSeq);
    const newest = this.waiting.at(-1);
    if (lastSeq > foldedSeq && (!newest || lastSeq > newest.seq)) this.waiting.push({ seq: lastSeq, since: now });
    // Long backlogs need no finer memory than this.
    if (this.waiting.length > 500) this.waiting.splice(250, 1);
    const oldest = this.waiting[0];
    return oldest ? now - oldest.since : 0;
  }
}
