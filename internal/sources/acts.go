package sources

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/google/uuid"

	"github.com/millrace-io/millrace/internal/acts"
	"github.com/millrace-io/millrace/internal/queue"
)

// Subject is the name of sources in records of acts.
const Subject = "sources"

// Asked is what a request has that begins an act on sources.
type Asked struct {
	Move   string       `json:"move" enum:"enable,disable,delete" doc:"What is done to each"`
	Filter SourceFilter `json:"filter" doc:"As the parameters of GET /sources; {}: all sources"`
}

// Why is the argument of acts on sources.
type Why struct {
	Reason string `json:"reason"` // for the events
}

// subject has sources be what acts are about.
type subject struct{ store *Store }

// Subject returns what acts on sources are about.
func (s *Store) Subject() acts.Subject { return subject{s} }

func (s subject) Name() string { return Subject }

// Asked implements acts.Asking.
func (s subject) Asked() any { return Asked{} }

func (s subject) Each(ctx context.Context, o acts.Order, add func(acts.Member) error) error {
	asked, err := acts.FilterOf[SourceFilter](o)
	if err != nil {
		return err
	}
	err = acts.EachUUID(ctx, s.store.pool, add, "SELECT id FROM millrace.source "+where+" ORDER BY id",
		asked.Filter().args()...)
	if err != nil {
		return fmt.Errorf("select sources: %w", err)
	}
	return nil
}

// Take changes the sources that the filter still matches.
func (s subject) Take(ctx context.Context, t *queue.Tx, a acts.Act, members []acts.Member) (all []acts.Result, err error) {
	var why Why
	if err := json.Unmarshal(a.Arguments, &why); err != nil {
		return nil, fmt.Errorf("read why sources change: %w", err)
	}
	asked, err := acts.FilterOf[SourceFilter](a.Order)
	if err != nil {
		return nil, err
	}
	f := asked.Filter()
	ids, err := acts.UUIDs(members)
	if err != nil {
		return nil, err
	}
	tx, err := t.Conn(ctx)
	if err != nil {
		return nil, err
	}
	told, err := s.store.within(ctx, tx, func(c *change) error {
		if _, err := c.lock(ctx, ids); err != nil {
			return err
		}
		var matching []uuid.UUID
		matching, all, err = acts.Matching(ctx, c, ids,
			"SELECT id, "+condition+" FROM millrace.source WHERE id = ANY ($6)", append(f.args(), ids)...)
		if err == nil {
			_, err = c.bulk(ctx, a.Move, matching, why.Reason)
		}
		return err
	})
	if told {
		t.OnCommit(s.store.outbox.Wake)
	}
	return all, err
}

func (s subject) Describe(ctx context.Context, members []acts.Member) ([]json.RawMessage, error) {
	return acts.Described(ctx, s.store.pool, `SELECT u.place,
		json_strip_nulls(json_build_object('source_id', u.id, 'source_name', s.name))
		FROM unnest($1::text[]::uuid[], $2::smallint[]) WITH ORDINALITY AS u (id, part, place)
		LEFT JOIN millrace.source AS s ON s.id = u.id`, members)
}
