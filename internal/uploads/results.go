package uploads

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/millrace-io/millrace/internal/tabular"
	"github.com/millrace-io/millrace/schemas/uploads"
)

// Bounds of the columns of a table of results: as in Excel, and of formats that keep an index of each.
const (
	MaxColumns        = 16_384
	MaxIndexedColumns = 1_000
)

// Results reads the results of a job's items that are DONE, by row, in one snapshot.
type Results struct {
	Columns []string // of all results, in the order in which they come; empty where they were not asked for

	tx     pgx.Tx
	rows   pgx.Rows
	job    Job
	names  MemberNames
	places map[string]int
	most   int // columns
}

// Result is the result of one row.
type Result struct {
	Object json.RawMessage
	// Cells are by the columns: texts as they are, null and members that are not there as empty texts,
	// and other values as JSON. nil where columns were not asked for.
	Cells []string
	// Absent are those of the cells that have no value: null, or no member. nil: none.
	Absent []bool
}

// Results begins to read. Columns of JSON lines and of results of workers are found out by reading all of
// them, if any are asked for: so many at most. The caller closes what it gets.
func (s *Store) Results(ctx context.Context, who Viewer, id uuid.UUID, columns int) (r *Results, err error) {
	r = &Results{most: columns}
	defer func() {
		if err != nil {
			r.Close()
			err = fmt.Errorf("read results of the upload %s: %w", id, err)
		}
	}()
	// Nobody waits for the transaction, and who reads slowly may take as long as the request.
	r.tx, err = s.pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err != nil {
		return r, err
	}
	r.job, err = s.get(ctx, r.tx, who, id)
	if err != nil {
		return r, err
	}
	if !r.job.Queued() {
		r.names = Members(r.job)
	}
	if columns > 0 {
		if err := r.findColumns(ctx); err != nil {
			return r, err
		}
	}
	if dense(r.job) {
		if _, err := r.tx.Exec(ctx, merging); err != nil {
			return r, err
		}
	}
	r.rows, err = r.tx.Query(ctx, "SELECT "+resultOf(r.job)+resultsFrom(r.job)+" ORDER BY i.row_no", r.job.No)
	return r, err
}

// dense tells whether most rows of a job are results. Then tables are read in the order of their keys, and else by each key.
func dense(j Job) bool { return j.Counts[uploads.StatusDone] > j.ReadRows/2 }

// merging has the statements that follow it in a transaction merge tables by their keys, whatever statistics Postgres has.
const merging = `SELECT set_config('enable_nestloop', 'off', true), set_config('enable_hashjoin', 'off', true),
	set_config('enable_sort', 'off', true), set_config('enable_incremental_sort', 'off', true),
	set_config('enable_bitmapscan', 'off', true)`

// resultOf is the result of a row r: that of a processor x, or the row itself. A worker may have found none.
func resultOf(j Job) string {
	if j.Queued() {
		return "coalesce(x.result, '{}'::json)"
	}
	return "r.input"
}

func resultsFrom(j Job) string {
	from := " FROM millrace.upload_item AS i"
	switch {
	case dense(j):
		from += " JOIN millrace.upload_row AS r ON r.job_no = $1 AND r.row_no = i.row_no"
		if j.Queued() {
			from += " LEFT JOIN millrace.upload_result AS x ON x.job_no = $1 AND x.row_no = i.row_no"
		}
	default:
		from += inputJoin("i")
		if j.Queued() {
			from += resultJoin("i")
		}
	}
	return from + " WHERE i.job_no = $1 AND i.status = 2"
}

// findColumns finds out the members of all results, in the order in which they first come.
func (r *Results) findColumns(ctx context.Context) error {
	if r.Columns = tabular.Keys(r.job.Header); len(r.names) == 0 {
		rows, _ := r.tx.Query(ctx, `SELECT key FROM (SELECT i.row_no, `+resultOf(r.job)+` AS result`+resultsFrom(r.job)+`) AS i,
			LATERAL json_object_keys(result) WITH ORDINALITY AS k (key, at)
			GROUP BY key ORDER BY min(ARRAY[row_no, at]) LIMIT $2`, r.job.No, r.most+1)
		columns, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			return err
		}
		r.Columns = columns
		if len(r.Columns) > r.most {
			return &StateError{r.job.State, fmt.Sprintf(
				"the results have more than %d different members, as many columns as this format may have: ask for ndjson", r.most)}
		}
	}
	if len(r.Columns) == 0 && r.most == MaxIndexedColumns && r.Total() > 0 {
		return &StateError{r.job.State, "no result has a member, and this format needs a column: ask for ndjson"}
	}
	r.places = make(map[string]int, len(r.Columns))
	for i, name := range r.Columns {
		r.places[name] = i
	}
	return nil
}

// Total is how many results there are.
func (r *Results) Total() int64 { return int64(r.job.Counts[uploads.StatusDone]) }

// pageBytes bounds a page of results, if it has more than one.
const pageBytes = 1 << 20

// Next returns the next results, and whether there may be more.
func (r *Results) Next() (page []Result, more bool, err error) {
	for size := 0; size < pageBytes; {
		if !r.rows.Next() {
			return page, false, r.rows.Err()
		}
		raw := r.rows.RawValues()[0]
		size += len(raw)
		result, err := r.result(raw)
		if err != nil {
			return nil, false, fmt.Errorf("read a result of the upload %s: %w", r.job.ID, err)
		}
		page = append(page, result)
	}
	return page, true, nil
}

// result reads a result, of which it keeps nothing that is in raw.
func (r *Results) result(raw []byte) (out Result, err error) {
	if r.places == nil {
		out.Object, err = r.names.Object(bytes.Clone(raw))
		return out, err
	}
	if len(raw) > 0 && raw[0] == '[' {
		out.Cells, err = cellsOf(string(raw), len(r.Columns))
		if err == nil && len(out.Cells) != len(r.Columns) {
			err = fmt.Errorf("the row has %d cells, and the upload has %d columns", len(out.Cells), len(r.Columns))
		}
		return out, err
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(raw, &members); err != nil {
		return out, err
	}
	out.Cells, out.Absent = make([]string, len(r.Columns)), make([]bool, len(r.Columns))
	for i := range out.Absent {
		out.Absent[i] = true
	}
	for name, value := range members {
		at, known := r.places[name]
		if !known {
			return out, fmt.Errorf("there is no column %q", name)
		}
		out.Absent[at] = string(value) == "null"
		if out.Cells[at], err = cell(value); err != nil {
			return out, err
		}
	}
	return out, nil
}

// cellsOf reads a list of about n texts. They share the memory of the list, as rows are persisted: without spaces, and most
// cells without escapes. It reads any other list, too.
func cellsOf(list string, n int) ([]string, error) {
	cells := make([]string, 0, n)
	for at := 1; at < len(list) && list[at] == '"'; at++ {
		end, escaped := endOf(list, at)
		if end == len(list) {
			break
		}
		cell := list[at+1 : end]
		if escaped {
			if err := json.Unmarshal([]byte(list[at:end+1]), &cell); err != nil {
				return nil, err
			}
		}
		cells = append(cells, cell)
		if at = end + 1; at == len(list)-1 && list[at] == ']' {
			return cells, nil
		}
		if at == len(list) || list[at] != ',' {
			break
		}
	}
	var all []string
	err := json.Unmarshal([]byte(list), &all)
	return all, err
}

// endOf is where the quote is that closes the text in a list that the one at begins, or the length of the list; and whether
// the text has escapes.
func endOf(list string, at int) (end int, escaped bool) {
	end = strings.IndexByte(list[at+1:], '"')
	if end < 0 {
		return len(list), false
	}
	if end += at + 1; strings.IndexByte(list[at:end], '\\') < 0 {
		return end, false
	}
	for end = at + 1; end < len(list) && list[end] != '"'; end++ {
		if list[end] == '\\' {
			end++
		}
	}
	return min(end, len(list)), true
}

// cell is a value as a text.
func cell(value json.RawMessage) (text string, err error) {
	switch {
	case string(value) == "null":
		return "", nil
	case value[0] == '"':
		err = json.Unmarshal(value, &text)
		return text, err
	}
	var line bytes.Buffer
	err = json.Compact(&line, value)
	return line.String(), err
}

// Close ends the reading. Its context should have ended where not all is read.
func (r *Results) Close() {
	if r.rows != nil {
		r.rows.Close()
	}
	if r.tx != nil {
		if err := r.tx.Rollback(context.Background()); err != nil && !errors.Is(err, pgx.ErrTxClosed) {
			_ = r.tx.Conn().Close(context.Background())
		}
	}
}
