package jobs

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/millrace-io/millrace/schemas/job"
	"github.com/millrace-io/millrace/schemas/source"
)

// JobSource is the source of a job, as it is in the table.
type JobSource struct {
	ID       uuid.UUID `json:"id" format:"uuid"`
	Name     string    `json:"name"`
	URL      string    `json:"url"`
	Enabled  bool      `json:"enabled"`
	Priority string    `json:"priority" enum:"low,normal,high,critical"`
}

// JobDetail is a job with what is known of its source and its runs.
type JobDetail struct {
	job.Job
	Source *JobSource      `json:"source" doc:"null: there is none"`
	Health job.CrawlHealth `json:"health"`
}

// List returns up to limit jobs that a filter selects, of those that were made after
// another one; the oldest first.
func (s *Store) List(ctx context.Context, f Filter, after uuid.UUID, limit int) ([]JobDetail, error) {
	return s.details(ctx, where+" AND j.id > $10 ORDER BY j.id LIMIT $11", append(f.args(), after, limit)...)
}

// Count returns how many jobs a filter selects.
func (s *Store) Count(ctx context.Context, f Filter) (n int64, err error) {
	err = s.readWhole(ctx, func(tx pgx.Tx) error {
		return tx.QueryRow(ctx, "SELECT count(*) FROM millrace.jobs AS j "+where, f.args()...).Scan(&n)
	})
	if err != nil {
		return 0, fmt.Errorf("count jobs: %w", err)
	}
	return n, nil
}

// Get returns a job, or ErrNotFound.
func (s *Store) Get(ctx context.Context, id uuid.UUID) (JobDetail, error) {
	return s.detail(ctx, "WHERE j.id = $1", id)
}

// OfSource returns the job of a source, or ErrNotFound.
func (s *Store) OfSource(ctx context.Context, id uuid.UUID) (JobDetail, error) {
	return s.detail(ctx, "WHERE j.source_id = $1", id)
}

func (s *Store) detail(ctx context.Context, where string, id uuid.UUID) (JobDetail, error) {
	all, err := s.details(ctx, where, id)
	if err == nil && len(all) == 0 {
		err = fmt.Errorf("%s: %w", id, ErrNotFound)
	}
	if err != nil {
		return JobDetail{}, err
	}
	return all[0], nil
}

func (s *Store) details(ctx context.Context, where string, args ...any) ([]JobDetail, error) {
	records, err := readJobs(ctx, s.pool, where, args...)
	if err != nil {
		return nil, fmt.Errorf("read jobs: %w", err)
	}
	ids := make([]uuid.UUID, len(records))
	for i, r := range records {
		ids[i] = r.SourceID
	}
	rows, err := sources(ctx, s.pool, "WHERE id = ANY ($1)", ids)
	if err != nil {
		return nil, fmt.Errorf("read the sources of jobs: %w", err)
	}
	known := make(map[uuid.UUID]source.CrawlSource, len(rows))
	for _, row := range rows {
		known[row.ID] = row
	}
	healths, err := s.healths(ctx, ids)
	if err != nil {
		return nil, fmt.Errorf("read the health of jobs: %w", err)
	}
	all := make([]JobDetail, len(records))
	for i, r := range records {
		all[i] = JobDetail{Job: r.Job, Health: healths[r.SourceID]}
		h := &all[i].Health
		h.Status = job.HealthOf(r.Status, r.ended, r.FailureCount, h.Runs, h.Failures)
		h.SuccessRate = job.Rate(h.Runs, h.Failures)
		if row, ok := known[r.SourceID]; ok {
			all[i].Source = &JobSource{row.ID, row.Name, row.URL, row.Enabled, row.Priority}
		}
	}
	return all, nil
}

// healths are what the runs of sources say.
func (s *Store) healths(ctx context.Context, ids []uuid.UUID) (map[uuid.UUID]job.CrawlHealth, error) {
	rows, err := s.pool.Query(ctx, `SELECT u.id, last.at, last.status, day.runs, day.failed, day.articles, day.seconds
		FROM unnest($1::uuid[]) AS u (id)
		LEFT JOIN LATERAL (
			SELECT coalesce(started_at, completed_at) AS at, status FROM millrace.executions
			WHERE source_id = u.id AND (started_at IS NOT NULL OR status = 'failed') ORDER BY id DESC LIMIT 1
		) AS last ON true
		CROSS JOIN LATERAL (
			SELECT count(*) AS runs, count(*) FILTER (WHERE status = 'failed') AS failed,
				coalesce(sum(articles_count), 0)::bigint AS articles, avg(duration_seconds) AS seconds
			FROM millrace.executions
			WHERE source_id = u.id AND completed_at > now() - interval '24 hours' AND status IN ('success', 'failed')
		) AS day`, ids)
	if err != nil {
		return nil, err
	}
	all := make(map[uuid.UUID]job.CrawlHealth, len(ids))
	_, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (struct{}, error) {
		var id uuid.UUID
		var h job.CrawlHealth
		err := row.Scan(&id, &h.LastRunAt, &h.LastStatus, &h.Runs, &h.Failures, &h.Articles, &h.AvgDuration)
		if h.LastRunAt != nil {
			*h.LastRunAt = h.LastRunAt.UTC()
		}
		if h.AvgDuration != nil {
			*h.AvgDuration = math.Round(*h.AvgDuration*10) / 10
		}
		all[id] = h
		return struct{}{}, err
	})
	return all, err
}

// Executions returns up to limit runs of a source that were made before another one
// (zero: all), the latest first; of a status, unless that is empty.
func (s *Store) Executions(
	ctx context.Context, ofSource uuid.UUID, status string, before uuid.UUID, limit int,
) ([]job.Execution, error) {
	rows, _ := s.pool.Query(ctx, `SELECT id, job_id, source_id, due_at, forced, attempt, status, queued_at,
		started_at,
			completed_at, articles_count, duration_seconds, coalesce(error, ''), item_id FROM millrace.executions
		WHERE source_id = $1 AND ($2 = '' OR status = $2) AND ($3::uuid = $4::uuid OR id < $3) ORDER BY id DESC
		LIMIT $5`,
		ofSource, status, before, uuid.Nil, limit)
	all, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (e job.Execution, err error) {
		err = row.Scan(&e.ID, &e.JobID, &e.SourceID, &e.DueAt, &e.Forced, &e.Attempt, &e.Status, &e.QueuedAt,
			&e.StartedAt,
			&e.CompletedAt, &e.Articles, &e.Duration, &e.Error, &e.ItemID)
		inUTC(&e.DueAt, &e.QueuedAt, e.StartedAt, e.CompletedAt)
		return e, err
	})
	if err != nil {
		return nil, fmt.Errorf("read the runs of the source %s: %w", ofSource, err)
	}
	return all, nil
}

func inUTC(all ...*time.Time) {
	for _, at := range all {
		if at != nil {
			*at = at.UTC()
		}
	}
}

// SourceKnown returns ErrNotFound for a source that is neither in the table nor told
// of by events, and that no run was for.
func (s *Store) SourceKnown(ctx context.Context, id uuid.UUID) error {
	return s.exists(ctx, `SELECT EXISTS (SELECT FROM millrace.source WHERE id = $1)
		OR EXISTS (SELECT FROM millrace.source_state WHERE source_id = $1)
		OR EXISTS (SELECT FROM millrace.executions WHERE source_id = $1)`, id)
}

// Known returns ErrNotFound for a job that there never was.
func (s *Store) Known(ctx context.Context, id uuid.UUID) error {
	return s.exists(ctx, "SELECT EXISTS (SELECT FROM millrace.job_schedule WHERE job_id = $1)", id)
}

func (s *Store) exists(ctx context.Context, query string, id uuid.UUID) error {
	var known bool
	err := s.pool.QueryRow(ctx, query, id).Scan(&known)
	if err == nil && !known {
		err = ErrNotFound
	}
	if err != nil {
		return fmt.Errorf("%s: %w", id, err)
	}
	return nil
}

// Span selects due times of a job: from From (zero: the first) until before To (zero:
// the last) with an outcome, unless that is empty, and that ran or did not, unless Ran
// is nil.
type Span struct {
	From, To time.Time
	Outcome  string
	Ran      *bool
}

// Ledger returns what became of up to limit due times of a job before another one
// (zero: all), the latest first.
func (s *Store) Ledger(
	ctx context.Context, id uuid.UUID, span Span, before time.Time, limit int,
) ([]job.Decision, error) {
	to := span.To
	if to.IsZero() || !before.IsZero() && before.Before(to) {
		to = before
	}
	rows, _ := s.pool.Query(ctx, `SELECT due_at, outcome, forced, execution_id, reason, decided_at
		FROM millrace.job_ledger
		WHERE job_id = $1 AND due_at >= $2 AND ($3::timestamptz IS NULL OR due_at < $3) AND ($4 = '' OR outcome = $4)
			AND ($5::boolean IS NULL OR (outcome IN ('ran', 'caught_up')) = $5)
		ORDER BY due_at DESC LIMIT $6`, id, span.From, orNever(to), span.Outcome, span.Ran, limit)
	all, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (d job.Decision, err error) {
		err = row.Scan(&d.DueAt, &d.Outcome, &d.Forced, &d.ExecutionID, &d.Reason, &d.DecidedAt)
		inUTC(&d.DueAt, &d.DecidedAt)
		return d, err
	})
	if err != nil {
		return nil, fmt.Errorf("read the ledger of the job %s: %w", id, err)
	}
	return all, nil
}

func orNever(at time.Time) *time.Time {
	if at.IsZero() {
		return nil
	}
	return &at
}

// Log selects events that were processed. The zero value of a field selects all.
type Log struct {
	Source  uuid.UUID
	Type    string
	Outcome string
}

// Place is where a row of the log of events stands: the zero value is after all.
type Place struct {
	At time.Time
	ID uuid.UUID
}

// Events returns up to limit events that were processed within the last seven days,
// before a place; the latest first.
func (s *Store) Events(ctx context.Context, l Log, before Place, limit int) ([]job.ProcessedEvent, error) {
	rows, _ := s.pool.Query(ctx, `SELECT event_id, event_type, source_id, seq, event_at, outcome, job_id, detail,
			processed_at
		FROM millrace.processed_events
		WHERE ($1 = $2::uuid OR source_id = $1) AND ($3 = '' OR event_type = $3) AND ($4 = '' OR outcome = $4)
			AND ($5::timestamptz IS NULL OR (processed_at, event_id) < ($5, $6))
			AND processed_at >= now() - $7::interval
		ORDER BY processed_at DESC, event_id DESC LIMIT $8`,
		l.Source, uuid.Nil, l.Type, l.Outcome, orNever(before.At), before.ID, keep, limit)
	all, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (e job.ProcessedEvent, err error) {
		err = row.Scan(&e.EventID, &e.EventType, &e.SourceID, &e.Sequence, &e.Timestamp, &e.Outcome, &e.JobID,
			&e.Detail,
			&e.ProcessedAt)
		inUTC(&e.Timestamp, &e.ProcessedAt)
		return e, err
	})
	if err != nil {
		return nil, fmt.Errorf("read the log of events: %w", err)
	}
	return all, nil
}

// Stats are the numbers of all jobs at one moment.
func (s *Store) Stats(ctx context.Context) (stats job.Stats, err error) {
	err = s.readWhole(ctx, func(tx pgx.Tx) error {
		return errors.Join(countSources(ctx, tx, &stats), countJobs(ctx, tx, &stats), countRuns(ctx, tx, &stats),
			countWaiting(ctx, tx, &stats))
	})
	if err != nil {
		return stats, fmt.Errorf("count jobs and runs: %w", err)
	}
	return stats, nil
}

// readWhole opens a snapshot for statements that read whole tables: the pool plans for single
// rows.
func (s *Store) readWhole(ctx context.Context, do func(pgx.Tx) error) error {
	snapshot := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	return pgx.BeginTxFunc(ctx, s.pool, snapshot, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx,
			"SET LOCAL enable_seqscan = on; SET LOCAL enable_hashjoin = on; SET LOCAL enable_mergejoin = on")
		if err != nil {
			return err
		}
		return do(tx)
	})
}

// countSources counts the sources that the list of sources has.
func countSources(ctx context.Context, tx pgx.Tx, stats *job.Stats) error {
	return tx.QueryRow(ctx, "SELECT count(*) FROM millrace.source").Scan(&stats.TotalSources)
}

func countJobs(ctx context.Context, tx pgx.Tx, stats *job.Stats) error {
	stats.ByStatus = map[string]int64{}
	for _, status := range job.Statuses {
		stats.ByStatus[status] = 0
	}
	// Jobs are of one health that have these in common.
	rows, err := tx.Query(ctx, `SELECT j.status, j.last_ended_at IS NOT NULL, least(j.failure_count, $1), coalesce(d.runs, 0),
			coalesce(d.failed, 0), count(*)
		FROM millrace.jobs AS j LEFT JOIN (
			SELECT source_id, count(*) AS runs, count(*) FILTER (WHERE status = 'failed') AS failed
			FROM millrace.executions
			WHERE completed_at > now() - interval '24 hours' AND status IN ('success', 'failed') GROUP BY source_id
		) AS d ON d.source_id = j.source_id GROUP BY 1, 2, 3, 4, 5`, job.UnhealthyAfter)
	if err != nil {
		return err
	}
	_, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (struct{}, error) {
		var status string
		var ended bool
		var inARow int
		var runs, failed, n int64
		err := row.Scan(&status, &ended, &inARow, &runs, &failed, &n)
		stats.TotalJobs += n
		stats.ByStatus[status] += n
		switch job.HealthOf(status, ended, inARow, runs, failed) {
		case job.Failed:
			stats.Health.Failed += n
		case job.Warning:
			stats.Health.Warning += n
		case job.Unknown:
			stats.Health.Unknown += n
		default:
			stats.Health.Healthy += n
		}
		return struct{}{}, err
	})
	return err
}

func countRuns(ctx context.Context, tx pgx.Tx, stats *job.Stats) error {
	day := &stats.Last24h
	err := tx.QueryRow(ctx, `SELECT count(*), count(*) FILTER (WHERE status = 'success'),
			count(*) FILTER (WHERE status = 'failed'), coalesce(sum(articles_count), 0)::bigint FROM millrace.executions
		WHERE completed_at > now() - interval '24 hours' AND status IN ('success', 'failed')`).
		Scan(&day.Runs, &day.Successful, &day.Failed, &day.Articles)
	day.SuccessRate = job.Rate(day.Runs, day.Failed)
	stats.Throughput.Articles = int64(math.Round(float64(day.Articles) / 24))
	stats.Throughput.Runs = int64(math.Round(float64(day.Runs) / 24))
	return err
}

// LongWait is for how long a run may wait for a worker before that is worth a warning.
const LongWait = 5 * time.Minute

// countWaiting counts the runs that have not ended, and says how long the oldest waits that a
// worker could take.
func countWaiting(ctx context.Context, tx pgx.Tx, stats *job.Stats) error {
	runs := &stats.Runs
	err := tx.QueryRow(ctx, `SELECT coalesce(sum(running - active), 0), coalesce(sum(active), 0), (
			SELECT extract(epoch FROM now() - min(r.since))::double precision
			FROM millrace.ready AS r JOIN millrace.stage AS s ON s.stage = r.stage AND s.name = 'crawl')
		FROM millrace.job_status WHERE running > 0`).Scan(&runs.Queued, &runs.Running, &runs.OldestAge)
	if err != nil || runs.OldestAge == nil {
		return err
	}
	age := time.Duration(max(0, *runs.OldestAge) * float64(time.Second)).Round(time.Second)
	seconds := age.Seconds()
	if runs.OldestAge = &seconds; age >= LongWait {
		runs.Warning = fmt.Sprintf("no worker has taken the oldest run in the queue crawl for %s: start workers, or "+
			"see whether the queue is paused", age)
	}
	return nil
}
