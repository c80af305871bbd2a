package queue

import (
	"cmp"
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/millrace-io/millrace/internal/dbpool"
	"github.com/millrace-io/millrace/schemas/item"
)

// Settings are what a queue says about its items.
type Settings struct {
	ID          ID
	Name        string
	Paused      bool
	MaxAttempts int       // after which an item is dead; 0: any number
	LeaseS      float64   // of those who name none; 0: as they choose
	MeasuredS   float64   // seconds, in the place of LeaseS while a system measures how long workers have items; 0: none does
	BackoffS    []float64 // seconds to wait after each attempt in vain; the last counts for all that follow
	Limits
	RetentionS float64 // how long finished items of user-defined queues are kept
	MaxItems   int     // that may be live there, and that are kept when finished
	Followed   bool    // a system follows the items, see [Store.OnFollowed]
}

// Limits bound what of a queue is done at a time.
type Limits struct {
	Concurrency int  // items out at a time; 0: any number
	PerGroup    int  // items of one group out at a time; 0: any number
	RatePerKey  Rate // starts of items of one key
}

// Rate is Count in any PerS seconds; no Count: any number.
type Rate struct {
	Count int     `json:"count" doc:"Starts, to 10,000; 0: any number"`
	PerS  float64 `json:"per_s,omitempty" doc:"Seconds, 1 to 86,400"`
}

// Set changes the switches of a queue; nil leaves one as it is.
type Set struct {
	Paused      *bool
	MaxAttempts *int
	Concurrency *int
	PerGroup    *int
	RatePerKey  *Rate
	RetentionS  *float64
	MaxItems    *int
}

const settingsColumns = `stage, name, paused, max_attempts, coalesce(lease_s, 0), coalesce(backoff_s, '{}'),
	coalesce(concurrency, 0), coalesce(concurrency_per_group, 0), coalesce(rate_count, 0), coalesce(rate_per_s, 0),
	coalesce(retention_s, 0), coalesce(max_items, 0), followed, coalesce(measured_lease_s, 0)`

func scanSettings(r pgx.CollectableRow) (v Settings, err error) {
	return v, r.Scan(&v.ID, &v.Name, &v.Paused, &v.MaxAttempts, &v.LeaseS, &v.BackoffS, &v.Concurrency,
		&v.PerGroup, &v.RatePerKey.Count, &v.RatePerKey.PerS, &v.RetentionS, &v.MaxItems, &v.Followed, &v.MeasuredS)
}

// Lease is that of those who name none, in seconds; 0: as they choose.
func (v Settings) Lease() float64 { return cmp.Or(v.MeasuredS, v.LeaseS) }

// Queue returns the settings of a queue by its name, or ErrNoQueue.
func (s *Store) Queue(ctx context.Context, name string) (Settings, error) {
	rows, _ := s.pool.Query(ctx, "SELECT "+settingsColumns+" FROM millrace.stage WHERE name = $1", name)
	v, err := pgx.CollectExactlyOneRow(rows, scanSettings)
	return v, dbpool.Found(err, ErrNoQueue, "read the settings of %s", name)
}

// Queues returns the settings of all queues.
func (s *Store) Queues(ctx context.Context) ([]Settings, error) {
	rows, _ := s.pool.Query(ctx, "SELECT "+settingsColumns+" FROM millrace.stage ORDER BY stage")
	return dbpool.Collect(rows, scanSettings, "read the settings of queues")
}

// remembered are the settings that a queue had.
type remembered struct {
	of    Settings
	until time.Time
}

// knownFor is how long settings are cached. Another process may delete a queue, and
// create one with the same name: until they expire, the items of the new one are not
// found here, and their messages are redelivered.
const knownFor = time.Second

// Lookup finds a queue by its name, or ErrNoQueue, as it was a second ago or later.
func (s *Store) Lookup(ctx context.Context, name string) (Settings, error) {
	if n, ok := s.known.Load(name); ok && time.Now().Before(n.(remembered).until) {
		return n.(remembered).of, nil
	}
	until := time.Now().Add(knownFor)
	v, err := s.Queue(ctx, name)
	if err != nil {
		s.known.Delete(name)
		return v, err
	}
	s.known.Store(name, remembered{v, until})
	return v, nil
}

// Forget has Lookup ask anew.
func (s *Store) Forget(name string) { s.known.Delete(name) }

// wait is how long to wait after so many attempts; otherwise where the queue
// does not say.
func (v settings) wait(attempts int32, otherwise time.Duration) time.Duration {
	if len(v.backoff) == 0 {
		return otherwise
	}
	i := min(max(int(attempts), 1), len(v.backoff)) - 1
	return item.Seconds(v.backoff[i])
}
