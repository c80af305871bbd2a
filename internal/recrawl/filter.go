package recrawl

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/schemas/batches"
	"github.com/millrace-io/millrace/schemas/instant"
	"github.com/millrace-io/millrace/schemas/item"
)

// ErrorFilter selects errors of batches that are not tried again. An error passes every part
// that is given.
type ErrorFilter struct {
	Code        string        `json:"code,omitempty" query:"code" maxLength:"2048" doc:"Errors with this error_code" example:"RATE_LIMITED"`
	Category    string        `json:"category,omitempty" query:"category" doc:"Errors of this category: rate_limiting, content, network, parsing, media, storage or generic" example:"network"`
	ProjectID   string        `json:"project_id,omitempty" query:"project_id" maxLength:"2048" doc:"Errors of this project" example:"proj_xyz"`
	Platform    string        `json:"platform,omitempty" query:"platform" maxLength:"2048" doc:"Errors of this platform, as announced" example:"tiktok"`
	JobID       string        `json:"job_id,omitempty" query:"job_id" maxLength:"2048" doc:"Errors of this job" example:"proj_xyz-brand-0"`
	BatchIndex  *int32        `json:"batch_index,omitempty" minimum:"0" doc:"Errors of this batch of job_id" example:"1"`
	Fingerprint string        `json:"fingerprint,omitempty" query:"fingerprint" maxLength:"65536" doc:"Errors of this group, as /crawl-errors/groups has it, beside its error_code"`
	From        *instant.Time `json:"from,omitempty" format:"date-time" doc:"Errors of batches that were read then or later"`
	To          *instant.Time `json:"to,omitempty" format:"date-time" doc:"Errors of batches that were read before"`
}

// Check returns all rules that the filter breaks.
func (f ErrorFilter) Check() (broken []item.Invalid) {
	add := func(field, code, rule string) {
		broken = append(broken, item.Invalid{Field: field, Code: code, Rule: rule})
	}
	if f == (ErrorFilter{}) {
		add("code", "missing", "is required where nothing else is given: everything is never tried again at once")
	}
	if f.Category != "" && !slices.Contains(batches.Categories, f.Category) {
		add("category", "category_unknown", "must be one of "+strings.Join(batches.Categories, ", "))
	}
	if f.BatchIndex != nil && f.JobID == "" {
		add("job_id", "missing", "is required where batch_index is given")
	}
	if f.From != nil && f.To != nil && !f.From.Before(f.To.Time) {
		add("to", "span_order", "must be later than from")
	}
	for _, text := range []struct{ field, value string }{
		{"code", f.Code},
		{"project_id", f.ProjectID},
		{"platform", f.Platform},
		{"job_id", f.JobID},
		{"fingerprint", f.Fingerprint},
	} {
		if !utf8.ValidString(text.value) || strings.ContainsRune(text.value, 0) {
			add(text.field, "text", "must be UTF-8 without NUL")
		}
	}
	for _, at := range []struct {
		field string
		value *instant.Time
	}{{"from", f.From}, {"to", f.To}} {
		if at.value != nil && at.value.Check() != nil {
			add(at.field, "range", at.value.Check().Error())
		}
	}
	return broken
}

// where returns the condition of the filter, and its arguments.
func (f ErrorFilter) where() (condition string, args []any) {
	condition = "e.state = 'error'"
	and := func(text string, value any) {
		args = append(args, value)
		condition += fmt.Sprintf(" AND "+text, len(args))
	}
	for _, part := range []struct{ column, value string }{
		{"e.code", f.Code},
		{"e.category", f.Category},
		{"e.project_id", f.ProjectID},
		{"b.platform", f.Platform},
		{"e.job_id", f.JobID},
	} {
		if part.value != "" {
			and(part.column+" = $%d", part.value)
		}
	}
	if f.BatchIndex != nil {
		and("e.batch_index = $%d", *f.BatchIndex)
	}
	if f.Fingerprint != "" {
		and("e.print = $%d", item.FingerprintHash(f.Fingerprint))
	}
	if f.From != nil {
		and("e.read_at >= $%d", f.From.Time)
	}
	if f.To != nil {
		and("e.read_at < $%d", f.To.Time)
	}
	return condition, args
}

// Each calls do with every error that passes, the oldest first, until do returns an error.
func (s *Store) Each(ctx context.Context, f ErrorFilter, do func(Error) error) error {
	where, args := f.where()
	rows, err := s.own.Queues().Pool().Query(ctx, `SELECT e.id, e.generation FROM millrace.batch_error AS e
		JOIN millrace.batch AS b ON b.job_id = e.job_id AND b.batch_index = e.batch_index
		WHERE `+where+" ORDER BY e.id", args...)
	if err != nil {
		return fmt.Errorf("look for errors of batches: %w", err)
	}
	var e Error
	_, err = pgx.ForEachRow(rows, []any{&e.ID, &e.Generation}, func() error { return do(e) })
	return err
}

// Retry has one item tried again at once. It returns false if the item is being tried again
// already, and ErrNoError if it is not an error.
func (s *Store) Retry(ctx context.Context, of batches.ID, position int) (begun bool, err error) {
	err = s.own.Queues().Transact(ctx, "retry an item of a batch", func(t *queue.Tx) error {
		begun = false
		w, err := lock(ctx, t, "e.job_id = $1 AND e.batch_index = $2 AND e.position = $3", of.Job, of.Index, position)
		if err != nil {
			return err
		}
		if len(w.rows) == 0 || w.batches[of] == nil {
			return ErrNoError
		}
		if begun = w.rows[0].state == isError; begun {
			w.retry(w.rows[0])
		}
		return w.write(t, s.outbox)
	})
	return begun, err
}

// ErrNoError says that an item is not an error, or that its error cannot be tried again.
var ErrNoError = errors.New("the item is no error")
