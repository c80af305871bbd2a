package acts

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/internal/retry"
)

const (
	lookEvery  = time.Second // for acts that other processes have begun or left behind
	purgeEvery = time.Hour
)

// Run works on acts until ctx ends. Any number of processes may run it on the same
// database. While the database is away it tries again.
func (s *Store) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		return retry.Poll{
			Every: lookEvery, Wake: s.begun,
			Failed: retry.Warn(s.log, "an act cannot go on now, and is tried again"),
			Well:   func() { s.log.Info("acts go on") },
		}.Run(ctx, s.Step)
	})
	g.Go(func() error {
		return retry.Every(ctx, purgeEvery, s.purge, retry.Warn(s.log, "old acts cannot be dropped now"))
	})
	return g.Wait()
}

// purge drops acts that have ended and are kept no longer.
func (s *Store) purge(ctx context.Context) error {
	_, err := s.queues.Pool().Exec(ctx, "DELETE FROM millrace.act WHERE ended_at < now() - $1::interval", Keep)
	return err
}

// Step takes the next turn of the act that has waited longest, and is false when
// no act runs, or others have them in hand.
func (s *Store) Step(ctx context.Context) (worked bool, err error) {
	var a Act
	err = s.queues.Transact(ctx, "take a turn of an act", func(t *queue.Tx) error {
		a = Act{}
		t.Batch.Queue("SELECT "+columns+` FROM millrace.act WHERE state = 'running' AND subject = ANY ($1)
			ORDER BY worked_at, id LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED`, s.names).Query(func(rows pgx.Rows) error {
			found, err := pgx.CollectRows(rows, scan)
			if len(found) > 0 {
				a = found[0]
			}
			return err
		})
		if err := t.Flush(ctx); err != nil || a.ID == 0 {
			return err
		}
		return s.take(ctx, t, a)
	})
	if err != nil && a.ID != 0 {
		err = fmt.Errorf("act %d: %w", a.ID, err)
		// Others go first when this one is tried again.
		_, _ = s.queues.Pool().Exec(ctx, "UPDATE millrace.act SET worked_at = clock_timestamp() WHERE id = $1", a.ID)
	}
	return a.ID != 0, err
}

// take takes the next turn of an act that is locked: it moves the members, and counts them.
func (s *Store) take(ctx context.Context, t *queue.Tx, a Act) error {
	// A statement of its own: it sees the turns that were taken before the act
	// could be locked.
	var place int32
	var part int16
	var ids []string
	var generations []int32
	// Turns are taken by their places, of [Turn] members at most: so many have been, and may still be in the index.
	t.Batch.Queue(`SELECT place, part, members, generations FROM millrace.act_batch WHERE act_id = $1 AND place >= $2
		ORDER BY place LIMIT 1`, a.ID, (a.Done+a.Skipped+a.Failed)/Turn).QueryRow(func(r pgx.Row) error {
		return r.Scan(&place, &part, &ids, &generations)
	})
	if err := t.Flush(ctx); err != nil {
		return err
	}
	members := make([]Member, len(ids))
	for i, id := range ids {
		members[i] = Member{id, part, generations[i]}
	}
	results, err := s.subjects[a.Subject].Take(ctx, t, a, members)
	if err != nil {
		return err
	}
	t.Batch.Queue("DELETE FROM millrace.act_batch WHERE act_id = $1 AND place = $2", a.ID, place)
	count(t, a, place, members, results)
	return nil
}

// count adds what became of the members of a turn to the record, and names those that were not moved.
func count(t *queue.Tx, a Act, place int32, members []Member, results []Result) {
	room := map[string]int{Skipped: Named - a.Skipped, Failed: Named - a.Failed}
	counts := map[string]int{}
	var ids, outcomes, reasons []string
	for i, of := range results {
		counts[of.Outcome]++
		if room[of.Outcome]--; of.Outcome != Done && room[of.Outcome] >= 0 {
			ids, outcomes, reasons = append(ids, members[i].ID), append(outcomes, of.Outcome), append(reasons, of.Reason)
		}
	}
	if len(ids) > 0 {
		t.Batch.Queue(`INSERT INTO millrace.act_member (act_id, part, member, outcome, reason)
			SELECT $1, $2, * FROM unnest($3::text[], $4::text[], $5::text[])`, a.ID, members[0].Part, ids, outcomes, reasons)
	}
	t.Batch.Queue(text("count"), a.ID, counts[Done], counts[Skipped], counts[Failed], place)
}
