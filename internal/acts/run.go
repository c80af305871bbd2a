package acts

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/schemas/item"
)

const (
	lookEvery  = time.Second // for acts that other processes have begun or left behind
	purgeEvery = time.Hour
)

// Run works on acts until ctx ends. Any number of processes may run it on the same
// database. While the database is away it tries again.
func (s *Store) Run(ctx context.Context) error {
	look, purge := time.NewTicker(lookEvery), time.NewTicker(purgeEvery)
	defer look.Stop()
	defer purge.Stop()
	for failing := false; ; {
		worked, err := s.Step(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && !failing:
			s.log.Warn("an act cannot go on now, and is tried again", "error", err)
		case err == nil && failing:
			s.log.Info("acts go on")
		}
		if failing = err != nil; worked && !failing {
			continue
		}
		select {
		case <-ctx.Done():
			return nil
		case <-s.begun:
		case <-look.C:
		case <-purge.C:
			if err := s.purge(ctx); err != nil && ctx.Err() == nil {
				s.log.Warn("old acts cannot be dropped now", "error", err)
			}
		}
	}
}

// purge drops acts that have ended and are kept no longer.
func (s *Store) purge(ctx context.Context) error {
	_, err := s.queues.Pool().Exec(ctx, "DELETE FROM millrace.act WHERE ended_at < now() - $1::interval", Keep)
	return err
}

// turn is a turn of an act.
type turn struct {
	act             int64
	move, by        string
	skipped, failed int // by the turns before
	place           int32
	queue           queue.ID
	items           []int64
	generations     []int32
}

// Step takes the next turn of the act that has waited longest, and is false when
// no act runs, or others have them in hand.
func (s *Store) Step(ctx context.Context) (worked bool, err error) {
	var v turn
	err = s.queues.Transact(ctx, "take a turn of an act", func(t *queue.Tx) error {
		v = turn{}
		t.Batch.Queue(`SELECT id, move, caller, skipped, failed FROM millrace.act WHERE state = 'running'
			ORDER BY worked_at, id LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED`).Query(func(rows pgx.Rows) error {
			_, err := pgx.ForEachRow(rows, []any{&v.act, &v.move, &v.by, &v.skipped, &v.failed},
				func() error { return nil })
			return err
		})
		if err := t.Flush(ctx); err != nil || v.act == 0 {
			return err
		}
		// A statement of its own: it sees the turns that were taken before the act
		// could be locked.
		t.Batch.Queue(`SELECT place, stage, items, generations FROM millrace.act_batch WHERE act_id = $1
			ORDER BY place LIMIT 1`, v.act).QueryRow(func(r pgx.Row) error {
			return r.Scan(&v.place, &v.queue, &v.items, &v.generations)
		})
		if err := t.Flush(ctx); err != nil {
			return err
		}
		return s.take(ctx, t, v)
	})
	if err != nil && v.act != 0 {
		err = fmt.Errorf("act %d: %w", v.act, err)
		// Others go first when this one is tried again.
		_, _ = s.queues.Pool().Exec(ctx, "UPDATE millrace.act SET worked_at = clock_timestamp() WHERE id = $1", v.act)
	}
	return v.act != 0, err
}

// take moves the members of a turn, and counts them.
func (s *Store) take(ctx context.Context, t *queue.Tx, v turn) error {
	reached, err := s.apply(ctx, t, v)
	if err != nil {
		return err
	}
	room := map[string]int{"skipped": Named - v.skipped, "failed": Named - v.failed}
	counts := map[string]int{}
	var ids []int64
	var outcomes, reasons []string
	for i, of := range reached {
		outcome, reason := of.outcome, of.reason
		counts[outcome]++
		if room[outcome]--; outcome != "done" && room[outcome] >= 0 {
			ids, outcomes, reasons = append(ids, v.items[i]), append(outcomes, outcome), append(reasons, reason)
		}
	}
	t.Batch.Queue("DELETE FROM millrace.act_batch WHERE act_id = $1 AND place = $2", v.act, v.place)
	if len(ids) > 0 {
		t.Batch.Queue(`INSERT INTO millrace.act_member (act_id, stage, item_id, outcome, reason)
			SELECT $1, $2, * FROM unnest($3::bigint[], $4::text[], $5::text[])`, v.act, v.queue, ids, outcomes, reasons)
	}
	t.Batch.Queue(text("count"), v.act, counts["done"], counts["skipped"], counts["failed"])
	return nil
}

// reach is what became of a member, and why it was not moved.
type reach struct{ outcome, reason string }

// apply makes the moves of a turn, and returns what became of each member.
func (s *Store) apply(ctx context.Context, t *queue.Tx, v turn) ([]reach, error) {
	if v.queue == ofErrors {
		return s.retryErrors(ctx, t, v)
	}
	results, err := s.moveItems(ctx, t, v)
	all := make([]reach, len(results))
	for i, r := range results {
		all[i].outcome, all[i].reason = judge(v.move, r)
	}
	return all, err
}

// moveItems makes the moves of a turn on items.
func (s *Store) moveItems(ctx context.Context, t *queue.Tx, v turn) ([]queue.Result, error) {
	commands := make([]queue.Command, len(v.items))
	for i, id := range v.items {
		commands[i] = queue.Command{ID: id, Worker: v.by}
		if v.move == Cancel {
			commands[i].Error = fmt.Sprintf("cancelled by act %d", v.act)
		} else {
			commands[i].Generation = v.generations[i]
		}
	}
	if v.move == Retry && v.queue >= queue.FirstOwn {
		return s.own.RetryIn(ctx, t, v.queue, commands)
	}
	w, err := t.Work(v.queue, moves[v.move])
	if err != nil {
		return nil, err
	}
	if _, err := w.Lock(ctx, "t.id = ANY ($1::bigint[])", v.items); err != nil {
		return nil, err
	}
	return w.Apply(ctx, commands)
}

// judge says what became of a member, and why it was not moved.
func judge(move string, r queue.Result) (outcome, reason string) {
	switch {
	case r.Outcome == item.Changed:
		return "done", ""
	case r.Outcome == item.NotFound:
		return "skipped", "is gone"
	case move == Retry && r.Outcome == item.Forbidden && r.Status == item.Failed:
		return "failed", "another live item has its key"
	case move == Retry && r.Status == item.Failed:
		return "skipped", "was brought back meanwhile, and has failed again"
	case r.Status == item.Failed:
		return "skipped", "has failed or was cancelled meanwhile"
	}
	return "skipped", "is " + r.Status.String()
}
