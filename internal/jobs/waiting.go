package jobs

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// WaitingEvent is an event that waits for its source, and where it is on the stream.
type WaitingEvent struct {
	ID  uuid.UUID
	Seq int64
}

// Waiting returns events whose wait is over: their source is known by now, or did not
// become known. They are to be handed in again.
func (s *Store) Waiting(ctx context.Context, limit int) ([]WaitingEvent, error) {
	rows, _ := s.pool.Query(ctx, `SELECT event_id, seq FROM millrace.processed_events AS p
		WHERE outcome = 'waiting' AND (processed_at <= now() - $1::interval
			OR EXISTS (SELECT FROM millrace.source_state AS s WHERE s.source_id = p.source_id)
			OR EXISTS (SELECT FROM millrace.source AS s WHERE s.id = p.source_id))
		ORDER BY seq LIMIT $2`, s.cfg.Patience, limit)
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[WaitingEvent])
	if err != nil {
		return nil, fmt.Errorf("read waiting events: %w", err)
	}
	return all, nil
}

// GiveUp notes that events which wait are no longer on the stream.
func (s *Store) GiveUp(ctx context.Context, ids []uuid.UUID) error {
	_, err := s.pool.Exec(ctx, `UPDATE millrace.processed_events
		SET outcome = 'dead', detail = 'it was removed from the stream while it waited', processed_at = now()
		WHERE event_id = ANY ($1) AND outcome = 'waiting'`, ids)
	if err != nil {
		return fmt.Errorf("give %d waiting events up: %w", len(ids), err)
	}
	return nil
}

// Progress is how far events are processed.
type Progress struct {
	Unpublished uint64 // in the outbox
	Position    uint64 // in the stream
	Waiting     uint64 // behind the position
}

// Progress returns how far the events of a stream are processed.
func (s *Store) Progress(ctx context.Context, stream string) (p Progress, err error) {
	err = s.pool.QueryRow(ctx, `SELECT (SELECT count(*) FROM millrace.message_outbox),
		coalesce((SELECT seq FROM millrace.work_position WHERE stream = $1), 0),
		(SELECT count(*) FROM millrace.processed_events WHERE outcome = 'waiting')`, stream).
		Scan(&p.Unpublished, &p.Position, &p.Waiting)
	if err != nil {
		return p, fmt.Errorf("read how far events are processed: %w", err)
	}
	return p, nil
}
