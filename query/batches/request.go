package batches

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/millrace-io/millrace/query/reads"
	"github.com/millrace-io/millrace/schemas/batches"
	"github.com/millrace-io/millrace/schemas/instant"
	"github.com/millrace-io/millrace/schemas/object"
)

// Cursors of the lists.
var (
	batchCursor = reads.Pairs("batches")
	errorCursor = reads.Pairs("crawl errors")
	itemCursor  = reads.Pairs("items of a batch")
)

// maxName bounds names of jobs, projects, platforms and codes in bytes. A legacy batch has the
// name of its object in the place of a job.
const maxName = 2 * object.MaxKey

// Span are the parameters of a span of time.
type Span struct {
	From instant.Time `query:"from" format:"date-time" doc:"Only of batches that were read then or later" example:"2026-02-10T00:00:00Z"`
	To   instant.Time `query:"to" format:"date-time" doc:"Only of batches that were read before" example:"2026-02-11T00:00:00Z"`
}

func (s Span) check(f *reads.Faults) {
	if !s.From.IsZero() && !s.To.IsZero() && !s.From.Before(s.To.Time) {
		f.Add(reads.Broken("to", "span_order", "must be later than from"))
	}
}

// bounds returns the span in nanoseconds since 1970.
func (s Span) bounds() (from, to int64) {
	return nanos(s.From, math.MinInt64), nanos(s.To, math.MaxInt64)
}

// nanos returns a time in nanoseconds since 1970, which is what ClickHouse holds, or the
// nearest one that fits.
func nanos(t instant.Time, without int64) int64 {
	switch {
	case t.IsZero():
		return without
	case t.Year() < 1678:
		return math.MinInt64
	case t.Year() >= 2262:
		return math.MaxInt64
	}
	return t.UnixNano()
}

// checkName checks a text that filters. Empty means that it does not.
func checkName(f *reads.Faults, field, text string) { checkText(f, field, text, maxName) }

func checkText(f *reads.Faults, field, text string, most int) {
	switch {
	case len(text) > most:
		f.Add(reads.Broken(field, "length", fmt.Sprintf("must be at most %d bytes", most)))
	case !utf8.ValidString(text):
		f.Add(reads.Broken(field, "utf8", "must be valid UTF-8"))
	case strings.ContainsFunc(text, func(r rune) bool { return r < 0x20 || r == 0x7f }):
		f.Add(reads.Broken(field, "control_character", "must not contain control characters"))
	}
}

// OfBatch names a batch in a path.
type OfBatch struct {
	JobID string `path:"job_id" doc:"The job that crawled the items. A slash in it is written %2F" example:"proj_xyz-brand-0"`
	Index string `path:"batch_index" doc:"Which batch of the job it is" example:"1"`
}

func (r OfBatch) check(*Handler) (f reads.Faults) {
	r.id(&f)
	return f
}

// id reads which batch it is.
func (r OfBatch) id(f *reads.Faults) (id batches.ID) {
	checkName(f, "job_id", r.JobID)
	index, err := strconv.ParseInt(r.Index, 10, 32)
	if err != nil || index < 0 || strconv.FormatInt(index, 10) != r.Index {
		f.Add(reads.Broken("batch_index", "range", fmt.Sprintf("must be a whole number from 0 to %d", math.MaxInt32)))
	}
	return batches.ID{Job: r.JobID, Index: int32(index)}
}
