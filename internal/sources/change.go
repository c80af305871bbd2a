package sources

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/millrace-io/millrace/schemas/source"
)

// columns of a source, as row and scan have them.
var columns = []string{
	"id", "name", "url", "rate_limit", "max_depth", "enabled", "selectors", "priority", "created_at", "updated_at",
}

var selectSource = "SELECT " + strings.Join(columns, ", ") + " FROM millrace.source "

func row(s source.CrawlSource) []any {
	return []any{
		s.ID, s.Name, s.URL, s.RateLimit, s.MaxDepth, s.Enabled, s.Selectors, s.Priority, s.CreatedAt, s.UpdatedAt,
	}
}

func scan(r pgx.CollectableRow) (s source.CrawlSource, err error) {
	var selectors []byte
	err = r.Scan(&s.ID, &s.Name, &s.URL, &s.RateLimit, &s.MaxDepth, &s.Enabled, &selectors, &s.Priority, &s.CreatedAt,
		&s.UpdatedAt)
	s.Selectors, s.CreatedAt, s.UpdatedAt = json.RawMessage(selectors), s.CreatedAt.UTC(), s.UpdatedAt.UTC()
	return s, err
}

// querier is a pool or a transaction.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

func read(ctx context.Context, from querier, where string, args ...any) ([]source.CrawlSource, error) {
	rows, _ := from.Query(ctx, selectSource+where, args...)
	return pgx.CollectRows(rows, scan)
}

// lock reads sources, and holds them until the transaction ends. Their order is one
// for all: two transactions do not wait for each other.
func (c *change) lock(ctx context.Context, ids []uuid.UUID) (map[uuid.UUID]source.CrawlSource, error) {
	all, err := read(ctx, c, "WHERE id = ANY ($1) ORDER BY id FOR UPDATE", ids)
	found := make(map[uuid.UUID]source.CrawlSource, len(all))
	for _, s := range all {
		found[s.ID] = s
	}
	return found, err
}

// insert makes sources.
func (c *change) insert(ctx context.Context, all []source.Fields) ([]source.CrawlSource, error) {
	made := make([]source.CrawlSource, len(all))
	for i, f := range all {
		id, err := uuid.NewV7()
		if err != nil {
			return nil, err
		}
		made[i] = source.CrawlSource{ID: id, Fields: f, CreatedAt: c.now, UpdatedAt: c.now}
		c.tell(source.Created, id, f)
	}
	rows := pgx.CopyFromSlice(len(made), func(i int) ([]any, error) { return row(made[i]), nil })
	_, err := c.CopyFrom(ctx, pgx.Identifier{"millrace", "source"}, columns, rows)
	return made, err
}

// edit is a source that is locked, and the fields that it is to have.
type edit struct {
	was source.CrawlSource
	to  source.Fields
}

// update changes sources that are locked, and returns them as they are then. It
// leaves those alone that do not change.
func (c *change) update(ctx context.Context, edits []edit, reason string) ([]source.CrawlSource, error) {
	now, batch := make([]source.CrawlSource, len(edits)), &pgx.Batch{}
	for i, e := range edits {
		now[i] = e.was
		changes := source.Changes(e.was.Fields, e.to, reason)
		if len(changes) == 0 {
			continue
		}
		now[i].Fields, now[i].UpdatedAt = e.to, c.now
		for _, change := range changes {
			c.tell(change.Type, e.was.ID, change.Payload)
		}
		batch.Queue(`UPDATE millrace.source SET name = $2, url = $3, rate_limit = $4, max_depth = $5, enabled = $6,
			selectors = $7, priority = $8, created_at = $9, updated_at = $10 WHERE id = $1`, row(now[i])...)
	}
	if batch.Len() == 0 {
		return now, nil
	}
	return now, c.SendBatch(ctx, batch).Close()
}

// remove deletes sources that are locked.
func (c *change) remove(ctx context.Context, all []source.CrawlSource, reason string) error {
	ids := make([]uuid.UUID, len(all))
	for i, s := range all {
		ids[i] = s.ID
		c.tell(source.Deleted, s.ID, source.Deletion{Name: s.Name, Reason: reason})
	}
	_, err := c.Exec(ctx, "DELETE FROM millrace.source WHERE id = ANY ($1)", ids)
	return err
}
