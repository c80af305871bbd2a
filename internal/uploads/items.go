package uploads

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/millrace-io/millrace/internal/dbpool"
	"github.com/millrace-io/millrace/internal/tabular"
	"github.com/millrace-io/millrace/schemas/uploads"
)

// Item is a row of a job.
type Item struct {
	Row      int32
	Status   uploads.Status
	Attempts int16
	Version  int32
	Updated  time.Time
	Result   json.RawMessage // nil: there is none yet
	Error    *string         // the last one
	Worker   *string         // that has it
	TakenAt  *time.Time
	Summary  [3]*string // the cells that SummaryOf names
}

// ItemsQuery selects a page of a job's items.
type ItemsQuery struct {
	Statuses []uploads.Status
	ByRow    bool           // ordered by row_no, and else by (updated_at, id)
	After    uploads.Cursor // zero: from the beginning
	Skip     int            // how many items the page begins behind After
	Limit    int
}

// order is that of a list.
type order struct {
	by     string // of the items of several statuses
	behind string // of those of one status s, what is behind a cursor
}

var orders = map[bool]order{
	false: {"updated_at, row_no", "(status, updated_at, row_no) > (s.status, $3, $4)"},
	true:  {"row_no", "(status, row_no) > (s.status, $4) AND $3::timestamptz IS NOT NULL"},
}

// itemsSQL walks an index for each status, and merges them, see walk.
func itemsSQL(byRow bool, result string) string {
	o := orders[byRow]
	return `WITH first AS (
		SELECT i.* FROM unnest($2::smallint[]) AS s (status), LATERAL (
			SELECT row_no, status, attempts, version, updated_at, item_id FROM millrace.upload_item
			WHERE job_no = $1 AND ` + o.behind + ` AND status <= s.status
			ORDER BY status, ` + o.by + ` LIMIT $5
		) AS i ORDER BY ` + o.by + ` LIMIT $5
	), page AS (
		SELECT *, row_number() OVER (ORDER BY ` + o.by + `) AS place FROM first
	)
	SELECT page.row_no, page.status, coalesce(held.attempts, page.attempts), version, updated_at,
		CASE WHEN status = 2 THEN ` + result + ` END, coalesce(held.error, CASE WHEN status <> 2 THEN x.error END), held.worker,
		held.taken_at,
		CASE WHEN json_typeof(input) = 'array' THEN left(input ->> $7::integer, 200) ELSE left(input ->> $10::text, 200) END,
		CASE WHEN json_typeof(input) = 'array' THEN left(input ->> $8::integer, 200) ELSE left(input ->> $11::text, 200) END,
		CASE WHEN json_typeof(input) = 'array' THEN left(input ->> $9::integer, 200) ELSE left(input ->> $12::text, 200) END
	FROM page` + inputJoin("page") + resultJoin("page") + heldJoin("page") + `
	WHERE place > $6 ORDER BY place`
}

// inputJoin has the inputs r of the rows of a page, and resultJoin their results x. Each is looked up by itself: before
// statistics know the job $1, Postgres takes it for one without rows, and a join would read all of them for each row.
// OFFSET 0 keeps it from one.
func inputJoin(page string) string {
	return `, LATERAL (
		SELECT input FROM millrace.upload_row WHERE job_no = $1 AND row_no = ` + page + `.row_no OFFSET 0
	) AS r`
}

func resultJoin(page string) string {
	return ` LEFT JOIN LATERAL (
		SELECT result, error FROM millrace.upload_result WHERE job_no = $1 AND row_no = ` + page + `.row_no OFFSET 0
	) AS x ON true`
}

// heldJoin has the item of a row that is PROCESSING, with who has it.
func heldJoin(page string) string {
	return strings.ReplaceAll(` LEFT JOIN LATERAL (
		SELECT attempts, error, CASE WHEN t.status = 'started' THEN t.worker END AS worker,
			CASE WHEN t.status = 'started' THEN t.taken_at END AS taken_at
		FROM millrace.item AS t WHERE t.id = {page}.item_id AND {page}.status = 1 OFFSET 0
	) AS held ON true`, "{page}", page)
}

// maxPage is how many bytes of results a page has, if it has more than one item.
const maxPage = 8 << 20

// Items returns a page of a job's items, and whether there may be more behind it.
func (s *Store) Items(ctx context.Context, j Job, q ItemsQuery) (all []Item, more bool, err error) {
	args := []any{j.No, numbers(q.Statuses), q.After.At, q.After.Row, q.Skip + q.Limit, q.Skip}
	names, places := summaryColumns(j)
	args = append(args, places[0], places[1], places[2], names[0], names[1], names[2])
	// A page ends early where results are large: what is behind it is not read.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	keys, size := Members(j), 0
	err = s.walk(ctx, itemsSQL(q.ByRow, resultOf(j)), args, func(rows pgx.Rows) error {
		for rows.Next() {
			item, input, err := itemOf(rows)
			if err != nil {
				return err
			}
			if size += len(input); size > maxPage && len(all) > 0 {
				more = true
				cancel()
				return nil
			}
			if input != nil {
				if item.Result, err = keys.Object(input); err != nil {
					return fmt.Errorf("row %d: %w", item.Row, err)
				}
			}
			all = append(all, item)
		}
		return rows.Err()
	})
	if more {
		return all, true, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("read items of the upload %s: %w", j.ID, err)
	}
	return all, len(all) == q.Limit, nil
}

// itemOf reads an item, and what its result is made of.
func itemOf(rows pgx.Rows) (item Item, input []byte, err error) {
	err = rows.Scan(&item.Row, &item.Status, &item.Attempts, &item.Version, &item.Updated, &input,
		&item.Error, &item.Worker, &item.TakenAt, &item.Summary[0], &item.Summary[1], &item.Summary[2])
	return item, input, err
}

// SummaryFields are those of an item's summary.
var SummaryFields = [3]string{"title", "brand", "sku"}

// SummaryOf returns the names of the three columns that summarize a row: those that the mapping names for
// title, brand and sku, and else the first ones. JSON lines have no columns: there, the members of these names do.
func SummaryOf(j Job) (names [3]string) {
	keys := tabular.Keys(j.Header)
	for i, field := range SummaryFields {
		if name, mapped := j.Mapping[field]; mapped {
			names[i] = name
		} else if i < len(keys) {
			names[i] = keys[i]
		} else if len(keys) == 0 {
			names[i] = field
		}
	}
	return names
}

// MemberNames makes objects of lists of cells. Each is a name as JSON, with the colon behind it.
type MemberNames [][]byte

// Members returns the names of a job's columns.
func Members(j Job) (all MemberNames) {
	for _, key := range tabular.Keys(j.Header) {
		name, _ := json.Marshal(key) // a text always is JSON
		all = append(all, append(name, ':'))
	}
	return all
}

// Object returns a row as an object, with its members in the order of the columns.
func (m MemberNames) Object(input []byte) (json.RawMessage, error) {
	if len(input) > 0 && input[0] == '{' {
		return input, nil
	}
	var cells []json.RawMessage
	if err := json.Unmarshal(input, &cells); err != nil {
		return nil, err
	}
	if len(cells) != len(m) {
		return nil, fmt.Errorf("the row has %d cells, and the upload has %d columns", len(cells), len(m))
	}
	out := append(make([]byte, 0, 2*len(input)), '{')
	for i, cell := range cells {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(append(out, m[i]...), cell...)
	}
	return append(out, '}'), nil
}

// Rejects returns up to limit rejected rows of a job behind a row.
func (s *Store) Rejects(ctx context.Context, j Job, after int32, limit int) (all []Reject, err error) {
	rows, _ := s.pool.Query(ctx, `SELECT row_no, line, code, error, content FROM millrace.upload_reject
		WHERE job_no = $1 AND row_no > $2 ORDER BY row_no LIMIT $3`, j.No, after, limit)
	return dbpool.Collect(rows, pgx.RowToStructByPos[Reject], "read rejected rows of the upload %s", j.ID)
}
