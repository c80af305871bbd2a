package jobs

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/millrace-io/millrace/internal/schedule"
	"github.com/millrace-io/millrace/schemas/job"
	"github.com/millrace-io/millrace/schemas/source"
)

// querier is a pool or a transaction.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// settingsColumns are the columns of job_settings, in the order of settingsArgs.
var settingsColumns = []string{
	"id", "source_id", "source_name", "url", "rate_limit", "max_depth", "selectors",
	"auto_managed", "origin", "migrated_at", "override", "schedule_kind", "cron", "time_zone", "interval_minutes",
	"interval_type", "jitter_seconds", "schedule_version", "crawl_window_start", "crawl_window_end",
	"crawl_window_days", "crawl_window_zone", "max_concurrent", "overlap_policy", "catch_up_policy",
	"catch_up_window_seconds", "catch_up_cap", "catch_up_spread_seconds", "max_attempts", "retry_delay_seconds",
	"backoff_base_minutes", "backoff_max_minutes", "last_event_seq", "version", "created_at",
	"updated_at",
}

// statusColumns are the columns of job_status that events and people set too, in the order of
// statusArgs.
var statusColumns = []string{
	"id", "status", "paused_by", "next_run_at", "forced_at", "skip_next", "priority", "failure_count",
	"last_failure_at", "backoff_until", "resting_due_at",
}

// selectJobs reads jobs with the anchors of their schedules, and the last due times to
// come that are decided.
var selectJobs = "SELECT j." + strings.Join(settingsColumns, ", j.") + ", j." +
	strings.Join(statusColumns[1:], ", j.") + ", j.running, j.active, " +
	"j.last_ended_at IS NOT NULL, s.anchor_at, s.from_at, " +
	"(SELECT max(l.due_at) FROM millrace.job_ledger AS l WHERE l.job_id = j.id AND l.due_at >= now() AND NOT l.forced) " +
	"FROM millrace.jobs AS j " +
	"JOIN millrace.job_schedule AS s ON s.job_id = j.id AND s.version = j.schedule_version "

var (
	updateSettings = updateRow("job_settings", settingsColumns)
	updateStatus   = updateRow("job_status", statusColumns)
)

// updateRow is the statement that sets columns of the row of a table that the first names.
func updateRow(table string, columns []string) string {
	places := make([]string, len(columns)-1)
	for i := range places {
		places[i] = fmt.Sprintf("$%d", i+2)
	}
	return fmt.Sprintf("UPDATE millrace.%s SET (%s) = (%s) WHERE %s = $1", table, strings.Join(columns[1:], ", "),
		strings.Join(places, ", "), columns[0])
}

func (r *record) settingsArgs() []any {
	var start, end *int
	days, zone := []int{}, "UTC"
	if w := r.CrawlWindow; w != nil {
		start, end, days, zone = &w.StartHour, &w.EndHour, w.Days, w.TimeZone
	}
	return []any{
		r.ID, r.SourceID, r.SourceName, r.URL, r.RateLimit, r.MaxDepth, r.Selectors,
		r.AutoManaged, r.Origin, r.MigratedAt, r.Override, r.Schedule.Kind, orNull(r.Schedule.Cron),
		r.Schedule.TimeZone, r.IntervalMinutes,
		schedule.IntervalType(r.IntervalMinutes), r.JitterSeconds, r.schedule, start, end,
		days, zone, r.MaxConcurrent, r.OverlapPolicy, r.CatchUpPolicy,
		r.CatchUpWindowSeconds, r.CatchUpCap, r.CatchUpSpreadSeconds, r.MaxAttempts, r.RetryDelaySeconds,
		r.Override.BackoffBaseMinutes, r.BackoffMaxMinutes, r.lastSeq, r.Version, r.CreatedAt, r.UpdatedAt,
	}
}

func (r *record) statusArgs() []any {
	return []any{
		r.ID, r.Status, orNull(r.PausedBy), r.next, r.ForcedAt, r.SkipNext, r.Priority, r.FailureCount,
		r.LastFailureAt, r.BackoffUntil, r.resting,
	}
}

func orNull(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

func scanJob(row pgx.CollectableRow) (*record, error) {
	r := &record{}
	var pausedBy, cron *string
	var selectors, override []byte
	var start, end *int
	var window job.CrawlWindow
	var anchor, decided *time.Time
	var underWay int
	var base *int
	err := row.Scan(&r.ID, &r.SourceID, &r.SourceName, &r.URL, &r.RateLimit, &r.MaxDepth, &selectors,
		&r.AutoManaged, &r.Origin, &r.MigratedAt, &override, &r.Schedule.Kind, &cron, &r.Schedule.TimeZone,
		&r.IntervalMinutes, &r.IntervalType, &r.JitterSeconds, &r.schedule, &start, &end,
		&window.Days, &window.TimeZone, &r.MaxConcurrent, &r.OverlapPolicy, &r.CatchUpPolicy,
		&r.CatchUpWindowSeconds, &r.CatchUpCap, &r.CatchUpSpreadSeconds, &r.MaxAttempts, &r.RetryDelaySeconds,
		&base, &r.BackoffMaxMinutes, &r.lastSeq, &r.Version, &r.CreatedAt,
		&r.UpdatedAt, &r.Status, &pausedBy, &r.next, &r.ForcedAt, &r.SkipNext, &r.Priority, &r.FailureCount,
		&r.LastFailureAt, &r.BackoffUntil, &r.resting, &underWay, &r.RunningCount, &r.ended, &anchor, &r.since, &decided)
	if err != nil {
		return nil, err
	}
	r.Selectors, r.QueuedCount = json.RawMessage(selectors), max(0, underWay-r.RunningCount)
	if r.BackoffBaseMinutes = r.IntervalMinutes; base != nil {
		r.BackoffBaseMinutes = *base
	}
	if err := json.Unmarshal(override, &r.Override); err != nil {
		return nil, fmt.Errorf("read the override of the job %s: %w", r.ID, err)
	}
	if pausedBy != nil {
		r.PausedBy = *pausedBy
	}
	if cron != nil {
		r.Schedule.Cron = *cron
	}
	if start != nil {
		window.StartHour, window.EndHour = *start, *end
		r.CrawlWindow = &window
	}
	if anchor != nil {
		r.anchor = *anchor
	}
	if decided != nil {
		r.decided = *decided
	}
	r.show()
	return r, nil
}

// show makes times those that people see.
func (r *record) show() {
	inUTC(r.MigratedAt, r.ForcedAt, r.LastFailureAt, r.BackoffUntil, &r.CreatedAt, &r.UpdatedAt, &r.next)
	r.IntervalType = schedule.IntervalType(r.IntervalMinutes)
	r.NextRunAt = nil
	if r.Status != job.Paused && r.Status != job.Orphaned {
		next := r.next
		if until := r.BackoffUntil; until != nil && (r.resting != nil || !next.After(*until)) {
			next = *until
		}
		r.NextRunAt = &next
	}
}

func readJobs(ctx context.Context, from querier, where string, args ...any) ([]*record, error) {
	rows, _ := from.Query(ctx, selectJobs+where, args...)
	return pgx.CollectRows(rows, scanJob)
}

// lockJobs holds jobs until the transaction ends, and reads them. A statement that both
// waits and reads would not see the settings and the schedule that a job has got meanwhile.
func (c *change) lockJobs(ctx context.Context, column string, ids []uuid.UUID) ([]*record, error) {
	if err := c.hold(ctx, column, ids); err != nil {
		return nil, err
	}
	return readJobs(ctx, c, "WHERE j."+column+" = ANY ($1) ORDER BY j.id", ids)
}

// hold locks jobs until the transaction ends. Their order is one for all: two transactions
// do not wait for each other.
func (c *change) hold(ctx context.Context, column string, ids []uuid.UUID) error {
	_, err := c.Exec(ctx, "SELECT FROM millrace.job_status WHERE id IN (SELECT id FROM millrace.job_settings WHERE "+
		column+" = ANY ($1)) ORDER BY id FOR UPDATE", ids)
	return err
}

// save writes a job that has changed, with the schedule that it has begun.
func (c *change) save(r *record) {
	if r.begun != "" {
		var anchor *time.Time
		var interval *int
		if r.Schedule.Kind == "interval" {
			anchor, interval = &r.anchor, &r.IntervalMinutes
		}
		r.since = r.open(c.now)
		if !r.fresh {
			c.ended, c.endedAt = append(c.ended, r.ID), append(c.endedAt, r.since)
		}
		c.begun = append(c.begun, []any{
			r.ID, r.schedule, r.since, r.Status == job.Paused || r.Status == job.Orphaned, r.Schedule.Kind, anchor,
			interval,
			orNull(r.Schedule.Cron), r.Schedule.TimeZone, r.begun,
		})
	}
	switch {
	case r.fresh:
		c.settings, c.statuses = append(c.settings, r.settingsArgs()), append(c.statuses, r.statusArgs())
	case r.dirty:
		c.batch.Queue(updateSettings, r.settingsArgs()...)
		c.batch.Queue(updateStatus, r.statusArgs()...)
	}
	r.show()
}

// remove deletes a job. Its schedule ends where the ledger ends.
func (c *change) remove(r *record) {
	if r.fresh {
		return
	}
	c.batch.Queue(`UPDATE millrace.job_schedule SET to_at = GREATEST(from_at, LEAST(COALESCE(to_at, $2), $3))
		WHERE job_id = $1`, r.ID, r.open(c.now), r.next)
	c.batch.Queue("DELETE FROM millrace.job_settings WHERE id = $1", r.ID)
}

// scheduleColumns are those of a schedule that begins.
var scheduleColumns = []string{
	"job_id", "version", "from_at", "paused", "kind", "anchor_at", "interval_minutes", "cron", "time_zone", "reason",
}

var stateColumns = []string{
	"source_id", "name", "url", "rate_limit", "max_depth", "enabled", "selectors", "priority", "own", "field_seqs",
	"created_seq", "creation", "deleted_seq", "last_seq", "last_event_at",
}

var updateState = updateRow("source_state", stateColumns)

// lockStates reads what is known of sources, and holds it until the transaction ends.
func (c *change) lockStates(ctx context.Context, ids []uuid.UUID) (map[uuid.UUID]*state, error) {
	rows, err := c.Query(ctx, "SELECT "+strings.Join(stateColumns, ", ")+
		" FROM millrace.source_state WHERE source_id = ANY ($1) ORDER BY source_id FOR UPDATE", ids)
	if err != nil {
		return nil, err
	}
	all := map[uuid.UUID]*state{}
	_, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (struct{}, error) {
		s := &state{}
		var selectors, creation []byte
		err := row.Scan(&s.id, &s.Name, &s.URL, &s.RateLimit, &s.MaxDepth, &s.Enabled, &selectors, &s.Priority, &s.own,
			&s.seqs, &s.created, &creation, &s.deleted, &s.last, &s.lastAt)
		s.Selectors = json.RawMessage(selectors)
		all[s.id] = s
		if err != nil {
			return struct{}{}, err
		}
		return struct{}{}, json.Unmarshal(creation, &s.creation)
	})
	return all, err
}

// saveState writes what is known of a source. fresh tells that nothing was.
func (c *change) saveState(s *state, fresh bool) {
	args := []any{
		s.id, s.Name, s.URL, s.RateLimit, s.MaxDepth, s.Enabled, s.Selectors, s.Priority, s.own,
		s.seqs, s.created, s.creation, s.deleted, s.last, s.lastAt,
	}
	if fresh {
		c.states = append(c.states, args)
	} else {
		c.batch.Queue(updateState, args...)
	}
}

// sources reads sources in the table.
func sources(ctx context.Context, from querier, where string, args ...any) ([]source.CrawlSource, error) {
	rows, _ := from.Query(ctx, `SELECT id, name, url, rate_limit, max_depth, enabled, selectors, priority, updated_at
		FROM millrace.source `+where, args...)
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (s source.CrawlSource, err error) {
		var selectors []byte
		err = row.Scan(&s.ID, &s.Name, &s.URL, &s.RateLimit, &s.MaxDepth, &s.Enabled, &selectors, &s.Priority,
			&s.UpdatedAt)
		s.Selectors = json.RawMessage(selectors)
		return s, err
	})
}
