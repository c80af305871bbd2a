package userqueue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/millrace-io/millrace/internal/queue"
)

// Page asks for items of a queue, the oldest first.
type Page struct {
	Queue      queue.ID
	State      string // as Stored.State; empty: any
	Group, Key string
	After      int64 // only items with larger ids
	Limit      int
	IDs        []int64 // these alone; nil: all

	Visible
	Payload   string        // what the JSON of the payload has somewhere, as it was given; any case
	Retried   bool          // at work, or waiting, after an attempt that has failed
	Unchanged time.Duration // the time since the last change, at least
}

// searched is how many items one search for what no index has reads at most.
const searched = 20_000

// scans tells whether items have to be read to see whether they pass.
func (p Page) scans() bool { return p.Payload != "" || p.Retried || p.Unchanged > 0 }

// Stored is an item as it is now.
type Stored struct {
	ID         int64
	Generation int32
	Attempts   int32
	Priority   int16
	Key, Group string
	Payload    json.RawMessage
	Result     json.RawMessage
	Worker     string
	Error      string
	CreatedAt  time.Time
	UpdatedAt  time.Time
	LeaseUntil *time.Time
	Progress   string     // what the worker has last said that it is at
	ProgressAt *time.Time // nil: it has said nothing
	RunAt      *time.Time
	State      string
}

// States of items.
var States = []string{"new", "scheduled", "started", "done", "failed", "dead", "cancelled"}

// from is where the items of a state are found; what has a state that moves is in
// a small table.
var from = map[string]string{
	"": "true",
	"new": "EXISTS (SELECT FROM millrace.ready AS r WHERE r.stage = i.stage AND r.priority = i.priority AND " +
		"r.item_id = i.id)",
	"scheduled": "EXISTS (SELECT FROM millrace.delayed AS d WHERE d.item_id = i.id AND d.stage = i.stage)",
	"started":   "EXISTS (SELECT FROM millrace.claim AS c WHERE c.item_id = i.id AND c.stage = i.stage)",
	"done":      "i.status = 'done'",
	"failed": "EXISTS (SELECT FROM millrace.failed AS f WHERE f.stage = i.stage AND f.item_id = i.id AND " +
		"NOT f.dead)",
	"dead": "EXISTS (SELECT FROM millrace.failed AS f WHERE f.stage = i.stage AND f.item_id = i.id AND f.dead) " +
		"AND NOT i.cancelled",
	"cancelled": "i.status = 'failed' AND i.cancelled",

	Live: "i.status IN ('new', 'started')",
	Unwell: "EXISTS (SELECT FROM millrace.failed AS f WHERE f.stage = i.stage AND f.item_id = i.id) AND NOT " +
		"i.cancelled",
}

// Several states together, for a Page.
const (
	Live   = "live"   // new, scheduled or started
	Unwell = "unwell" // failed or dead
)

// PrivateGroup begins the names of groups whose items are shown to their owners and to admins alone, and handed out
// to whoever may take items of the queue.
const PrivateGroup = "upload:"

// Visible says which items of private groups are shown. The zero value shows all.
type Visible struct {
	Private bool     // none but those of Groups
	Groups  []string // private ones
}

// Shows tells whether items of a group are shown.
func (v Visible) Shows(group string) bool {
	return !v.Private || !strings.HasPrefix(group, PrivateGroup) || slices.Contains(v.Groups, group)
}

// visible is the condition of items that are not private, or of one of the groups behind it.
const visible = `(i."group" IS NULL OR NOT starts_with(i."group", '` + PrivateGroup + `') OR i."group" = ANY (`

// groups are those that are shown, as Postgres takes them.
func (v Visible) groups() []string {
	if v.Groups == nil {
		return []string{}
	}
	return v.Groups
}

// Items lists items.
func (s *Store) Items(ctx context.Context, p Page) ([]Stored, error) {
	items, _, err := s.Search(ctx, p)
	return items, err
}

// Search lists items. A search by Payload, Retried or Unchanged may end before the last
// item of the queue: then upTo is the id up to which it has looked.
func (s *Store) Search(ctx context.Context, p Page) (items []Stored, upTo int64, err error) {
	source := `(SELECT * FROM millrace.item AS i WHERE i.stage = $1 AND i.id > $2
		AND ($3 = '' OR i."group" = $3) AND ($4 = '' OR i.key = $4) AND ` + from[p.State]
	args := []any{p.Queue, p.After, p.Group, p.Key, p.Limit}
	also := func(condition string, value any) {
		args = append(args, value)
		source += fmt.Sprintf(" AND "+condition, len(args))
	}
	if p.IDs != nil {
		also("i.id = ANY ($%d::bigint[])", p.IDs)
	}
	if p.Private {
		also(visible+"$%d))", p.groups())
	}
	if p.scans() {
		err := s.queues.Pool().QueryRow(ctx, `SELECT id FROM millrace.item WHERE stage = $1 AND id > $2
			ORDER BY id OFFSET $3 LIMIT 1`, p.Queue, p.After, searched-1).Scan(&upTo)
		if err != nil && !errors.Is(err, pgx.ErrNoRows) {
			return nil, 0, fmt.Errorf("search items: %w", err)
		}
		if upTo > 0 {
			also("i.id <= $%d", upTo)
		}
	}
	if p.Payload != "" {
		also("strpos(lower(i.payload::text), lower($%d)) > 0", p.Payload)
	}
	if p.Retried {
		source += " AND i.attempts > CASE i.status WHEN 'new' THEN 0 ELSE 1 END AND i.status IN ('new', 'started')"
	}
	if p.Unchanged > 0 {
		also("i.updated_at <= now() - $%d * interval '1 second'", p.Unchanged.Seconds())
	}
	sql := strings.ReplaceAll(text("items"), "{from}", source+" ORDER BY i.id LIMIT $5)")
	rows, _ := s.queues.Pool().Query(ctx, sql, args...)
	items, err = pgx.CollectRows(rows, scanStored)
	if err != nil {
		return nil, 0, fmt.Errorf("search items: %w", err)
	}
	return items, upTo, nil
}

// Each calls each with every item of a page, the oldest first, until it returns an
// error. A page without a limit has all.
func (s *Store) Each(ctx context.Context, p Page, each func(queue.Member) error) error {
	rows, err := s.queues.Pool().Query(ctx, `SELECT i.id, i.stage, i.generation, coalesce(i.error, ''), i.updated_at
		FROM millrace.item AS i WHERE i.stage = $1 AND i.id > $2 AND ($3 = '' OR i."group" = $3)
		AND ($4 = '' OR i.key = $4) AND (NOT $6 OR `+visible+`$7))) AND ($8::bigint[] IS NULL OR i.id = ANY ($8))
			AND `+from[p.State]+" ORDER BY i.id LIMIT nullif($5, 0)", p.Queue, p.After, p.Group, p.Key, p.Limit, p.Private,
		p.groups(), p.IDs)
	if err == nil {
		err = queue.EachMember(rows, each)
	}
	if err != nil {
		return fmt.Errorf("select items: %w", err)
	}
	return nil
}

func scanStored(r pgx.CollectableRow) (v Stored, err error) {
	return v, r.Scan(&v.ID, &v.Generation, &v.Attempts, &v.Priority, &v.Key, &v.Group, &v.Payload, &v.Result,
		&v.Worker, &v.Error,
		&v.CreatedAt, &v.UpdatedAt, &v.LeaseUntil, &v.Progress, &v.ProgressAt, &v.RunAt, &v.State)
}
