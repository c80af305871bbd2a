package mirror

import (
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/millrace-io/millrace/schemas/funnel"
)

// Bounds of what waits for the rest of it, or for its checkpoint. A projector
// announces one batch after the other, and has written its checkpoint before.
const (
	waitBytes  = 32 << 20 // of all messages
	waitParts  = 64       // of a delta
	waitDeltas = 256
	waitFor    = 2 * time.Second
	// remembered is how many decided batches of a slot group are known by their
	// digests.
	remembered = 64
)

// verifier lets pass what projectors announce, and nothing that others publish in
// their name: a delta is right if the checkpoint of its slot group, which
// projectors alone can write, has its bounds and its digest. What comes before
// its checkpoint waits for it; what is refused is missed, if anything was, as a
// lost delta is. It is safe for concurrent use.
type verifier struct {
	apply func(*funnel.Delta)
	log   *slog.Logger
	now   func() time.Time

	mu      sync.Mutex
	decided map[uint32][]decision // by slot group, the newest last
	waiting []*announcement       // in the order of their first parts
	bytes   int
	refused uint64
	told    time.Time // when a refusal was last logged
}

// bounds name a batch.
type bounds struct {
	group    uint32
	from, to uint64
}

// decision is a batch as a checkpoint has it.
type decision struct {
	bounds
	digest   string // empty: the projector's program is too old to say
	baseline uint64 // that the batch was decided under
}

// announcement is a delta of which some parts have come.
type announcement struct {
	bounds
	want  int
	parts []*funnel.Delta
	sums  []funnel.Sum
	bytes int
	since time.Time
}

func (a *announcement) whole() bool { return len(a.parts) == a.want }

func newVerifier(apply func(*funnel.Delta), log *slog.Logger, now func() time.Time) *verifier {
	return &verifier{apply: apply, log: log, now: now, decided: map[uint32][]decision{}}
}

// decide takes note of a batch that a checkpoint has decided, and lets pass what
// has waited for it.
func (v *verifier) decide(d decision) {
	v.mu.Lock()
	defer v.mu.Unlock()
	known := v.decided[d.group]
	if n := len(known); n > 0 && known[n-1] == d {
		return // a sign of life
	}
	if n := len(known); n > 0 && known[n-1].baseline != d.baseline {
		known = nil // what was announced before belongs to what was loaded before
	}
	if known = append(known, d); len(known) > remembered {
		known = slices.Delete(known, 0, len(known)-remembered)
	}
	v.decided[d.group] = known
	v.release()
}

// hear takes a message of the announcements.
func (v *verifier) hear(data []byte) {
	d := new(funnel.Delta)
	if err := d.UnmarshalBinary(data); err != nil {
		v.mu.Lock()
		defer v.mu.Unlock()
		v.refuse(bounds{}, err.Error())
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.collect(d, data)
	v.release()
}

// collect puts a part to those of its delta. The lock is held.
func (v *verifier) collect(d *funnel.Delta, data []byte) {
	b := bounds{d.Group, d.From, d.To}
	if d.Parts > waitParts {
		v.refuse(b, fmt.Sprintf("it has %d parts", d.Parts))
		return
	}
	i := slices.IndexFunc(v.waiting, func(a *announcement) bool {
		return a.bounds == b && a.want == int(d.Parts) && len(a.parts) == int(d.Part)
	})
	if i < 0 {
		if d.Part > 0 {
			v.refuse(b, "the part before has not come")
			return
		}
		v.waiting = append(v.waiting, &announcement{bounds: b, want: int(d.Parts), since: v.now()})
		i = len(v.waiting) - 1
	}
	a := v.waiting[i]
	a.parts, a.sums, a.bytes = append(a.parts, d), append(a.sums, funnel.SumOf(data)), a.bytes+len(data)
	v.bytes += len(data)
	for v.bytes > waitBytes || len(v.waiting) > waitDeltas {
		v.drop(0, "too much waits for its checkpoint or its other parts")
	}
}

// release lets pass what is right, in the order in which it was announced, and
// refuses what is not. The lock is held.
func (v *verifier) release() {
	for i := 0; i < len(v.waiting); {
		a := v.waiting[i]
		if !a.whole() {
			i++
			continue
		}
		known, right := v.verdict(a)
		switch {
		case !known:
			i++
		case right:
			v.remove(i)
			for _, part := range a.parts {
				v.apply(part)
			}
		default:
			v.drop(i, "it is not what the checkpoint says of its batch")
		}
	}
}

// verdict tells whether a checkpoint with the bounds of a delta is known, and
// whether the delta is the one. The lock is held.
func (v *verifier) verdict(a *announcement) (known, right bool) {
	for _, d := range v.decided[a.group] {
		if d.bounds == a.bounds {
			known = true
			right = right || d.digest == "" || d.digest == funnel.Digest(a.sums)
		}
	}
	return known, right
}

// expire refuses what has waited for too long.
func (v *verifier) expire() {
	v.mu.Lock()
	defer v.mu.Unlock()
	for i := 0; i < len(v.waiting); {
		if a := v.waiting[i]; v.now().Sub(a.since).Abs() > waitFor {
			v.drop(i, "no checkpoint has its batch, or some of its parts have not come")
			continue
		}
		i++
	}
}

// drop refuses what waits at a place. The lock is held.
func (v *verifier) drop(i int, reason string) { v.refuse(v.remove(i).bounds, reason) }

// remove takes it out. The lock is held.
func (v *verifier) remove(i int) *announcement {
	a := v.waiting[i]
	v.waiting = slices.Delete(v.waiting, i, i+1)
	v.bytes -= a.bytes
	return a
}

// tellEvery is how often a refusal is logged.
const tellEvery = 10 * time.Second

// refuse counts and logs. The lock is held.
func (v *verifier) refuse(b bounds, reason string) {
	v.refused++
	if now := v.now(); v.told.IsZero() || now.Sub(v.told).Abs() >= tellEvery {
		v.told = now
		v.log.Warn(
			"a funnel delta is refused", "reason", reason, "group", b.group, "from", b.from, "to", b.to,
			"refused_in_all", v.refused,
		)
	}
}
