package uploads

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/millrace-io/millrace/internal/dbpool"
	"github.com/millrace-io/millrace/internal/tabular"
	"github.com/millrace-io/millrace/internal/uploads"

	schema "github.com/millrace-io/millrace/schemas/uploads"
)

// persist reads the file of an upload from behind the last row that is persisted, and persists the rest.
func (r *Runner) persist(ctx context.Context, j uploads.Job) error {
	rows, err := r.files.Rows(ctx, j, j.Format, r.cfg.Temp, int64(j.ReadRows))
	if err != nil {
		return r.unreadable(ctx, j, err)
	}
	defer rows.Close()
	if j.Header == nil && rows.Header() != nil || j.Format.Kind == tabular.Zip && j.ReadRows == 0 {
		if err := r.store.Describe(ctx, j, rows.Header()); err != nil {
			return err
		}
	}
	p := &persisting{
		Runner: r, job: j, rows: rows, batch: schema.NewBatch(r.cfg.Bounds), upto: j.ReadRows, begun: time.Now(),
	}
	p.encoder = json.NewEncoder(&p.buffer)
	p.encoder.SetEscapeHTML(false)
	for range j.ReadRows {
		if _, err := rows.Next(); err != nil {
			return r.unreadable(ctx, j, err)
		}
	}
	err = p.run(ctx)
	return r.unreadable(ctx, j, errors.Join(err, p.wait()))
}

// unreadable stops an upload that cannot be read on or may have no more rows, and returns other errors.
func (r *Runner) unreadable(ctx context.Context, j uploads.Job, err error) error {
	var table *tabular.ErrTable
	var limit *uploads.LimitError
	var stop error
	switch {
	case errors.As(err, &table):
		stop = r.store.Stop(ctx, j, table.Text)
	case errors.As(err, &limit):
		stop = r.store.Pausing(ctx, j, limit.Rule)
	case uploads.Lost(err):
		r.log.Error("the file of an upload is lost", "upload", j.ID, "error", err)
		stop = r.store.Stop(ctx, j, "the file is gone or damaged: upload it again")
	default:
		return err
	}
	return errors.Join(stop, uploads.ErrStopped)
}

// persisting is the work on one file.
type persisting struct {
	*Runner
	job   uploads.Job
	rows  tabular.Reader
	batch *schema.Batch
	upto  int32 // the last row that is persisted
	begun time.Time
	all   int

	next    uploads.Rows
	size    int // of its content, in bytes
	buffer  bytes.Buffer
	encoder *json.Encoder

	writing chan written // nil: no batch is
}

// written is what became of a batch.
type written struct {
	upto   int32
	rows   int
	took   time.Duration
	waited bool // for a connection
	err    error
}

func (p *persisting) run(ctx context.Context) error {
	p.next = p.behind(p.upto)
	for {
		row, err := p.rows.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return errors.Join(p.flush(ctx), err)
		}
		if err := p.add(row); err != nil {
			return err
		}
		if int(p.next.Upto-p.next.After) >= p.batch.Rows() || p.size >= p.batch.MaxBytes() {
			if err := p.flush(ctx); err != nil {
				return err
			}
		}
	}
	if err := errors.Join(p.flush(ctx), p.wait()); err != nil {
		return err
	}
	return p.store.EndRead(ctx, p.job, p.upto, rate(p.all, time.Since(p.begun)))
}

// behind is a batch behind a row, with no row yet. The processor copy has nothing to do for rows but to keep them.
func (p *persisting) behind(row int32) uploads.Rows {
	return uploads.Rows{After: row, Upto: row, Done: !p.job.Queued()}
}

// add adds a row to the next batch.
func (p *persisting) add(row tabular.Row) error {
	if row.No > schema.MaxRows {
		return &tabular.ErrTable{Text: fmt.Sprintf("the file has more than %d rows", schema.MaxRows)}
	}
	p.next.Upto = int32(row.No)
	if row.Fault != nil {
		p.size += len(row.Raw)
		p.next.Rejects = append(p.next.Rejects, uploads.Reject{
			No: int32(row.No), Line: row.Line, Code: row.Fault.Code, Error: row.Fault.Text, Content: slices.Clone(row.Raw),
		})
		return nil
	}
	input := slices.Clone([]byte(row.Object))
	if row.Object == nil {
		p.buffer.Reset()
		if err := p.encoder.Encode(row.Cells); err != nil {
			return fmt.Errorf("encode row %d: %w", row.No, err)
		}
		input = bytes.Clone(bytes.TrimSuffix(p.buffer.Bytes(), []byte("\n")))
	}
	if row.Image != nil {
		p.next.Images = append(p.next.Images, uploads.RowImage{No: int32(row.No), Image: *row.Image})
	}
	p.size += len(input)
	p.next.Items = append(p.next.Items, uploads.Input{No: int32(row.No), JSON: input})
	return nil
}

// flush begins to persist the next batch, once the one before it is persisted. Rows are read meanwhile.
func (p *persisting) flush(ctx context.Context) error {
	if err := p.wait(); err != nil {
		return err
	}
	b := p.next
	n := int(b.Upto - b.After)
	if n == 0 {
		return nil
	}
	p.next, p.size = p.behind(b.Upto), 0
	ended := make(chan written, 1)
	p.writing = ended
	go func() {
		waits, start := p.store.Pool().Stat().EmptyAcquireCount(), time.Now()
		err := p.append(ctx, b)
		ended <- written{b.Upto, n, time.Since(start), p.store.Pool().Stat().EmptyAcquireCount() > waits, err}
	}()
	return nil
}

// wait waits until the batch is persisted that flush has begun to, if any.
func (p *persisting) wait() error {
	if p.writing == nil {
		return nil
	}
	w := <-p.writing
	p.writing = nil
	if w.err != nil {
		p.batch.Failed()
		return w.err
	}
	p.batch.Took(w.rows, w.took, w.waited)
	p.metrics.persisted(w.rows, w.took, p.batch.Mean())
	p.all += w.rows
	p.upto = w.upto
	return nil
}

// append persists rows. Those that Postgres refuses for what they have it rejects one by one, so that
// none of them stops the others.
func (p *persisting) append(ctx context.Context, b uploads.Rows) error {
	err := p.store.Append(ctx, p.job, b)
	if err == nil || !dbpool.Refused(err) {
		return err
	}
	p.log.Warn("Postgres refuses rows of an upload", "upload", p.job.ID, "error", err)
	if b.Upto == b.After+1 {
		if len(b.Items) == 0 { // it was rejected, and its content is refused
			return err
		}
		reject := uploads.Reject{
			No: b.Upto, Code: "refused", Error: "the row is refused by the database: the server's log has the cause",
			Content: b.Items[0].JSON[:min(len(b.Items[0].JSON), tabular.MaxRaw)],
		}
		return p.store.Append(ctx, p.job, uploads.Rows{After: b.After, Upto: b.Upto, Rejects: []uploads.Reject{reject}})
	}
	middle := b.After + (b.Upto-b.After)/2
	one, two := p.behind(b.After), p.behind(middle)
	one.Upto, two.Upto = middle, b.Upto
	one.Items, two.Items = halves(b.Items, func(i uploads.Input) bool { return i.No <= middle })
	one.Images, two.Images = halves(b.Images, func(i uploads.RowImage) bool { return i.No <= middle })
	one.Rejects, two.Rejects = halves(b.Rejects, func(r uploads.Reject) bool { return r.No <= middle })
	if err := p.append(ctx, one); err != nil {
		return err
	}
	return p.append(ctx, two)
}

// halves splits a list into the elements that belong to the first half, and the others.
func halves[T any](all []T, first func(T) bool) (one, two []T) {
	for _, x := range all {
		if first(x) {
			one = append(one, x)
		} else {
			two = append(two, x)
		}
	}
	return one, two
}
