package console

import (
	"context"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/millrace-io/millrace/ingest/dlq"
)

// DeadLetters works on the dead letters of an installation over HTTP, as a dlq.Service
// does over NATS.
type DeadLetters struct{ Server }

// List returns a page of letters.
func (l DeadLetters) List(ctx context.Context, o dlq.ListOptions) (page dlq.LetterPage, err error) {
	f := letterFilter(o.Filter)
	query := notEmpty(map[string]string{
		"stream": f.Stream, "code": f.Code, "field": f.Field, "subject": f.Subject, "since": f.Since, "until": f.Until,
	})
	query.Set("limit", strconv.Itoa(o.Limit))
	if o.Oldest {
		query.Set("order", "oldest")
	}
	if o.Cursor != 0 {
		query.Set("cursor", strconv.FormatUint(o.Cursor, 10))
	}
	err = l.get(ctx, "/dlq", query, &page)
	return page, err
}

// Show returns all of one letter.
func (l DeadLetters) Show(ctx context.Context, id string) (letter dlq.LetterDetail, err error) {
	parts := strings.Split(id, "/")
	for i, part := range parts {
		parts[i] = url.PathEscape(part)
	}
	err = l.get(ctx, "/dlq/"+strings.Join(parts, "/"), nil, &letter)
	return letter, err
}

// Replay publishes the messages of letters again, and deletes these letters.
func (l DeadLetters) Replay(
	ctx context.Context, sel dlq.Selection, o dlq.ReplayOptions,
) (report dlq.LetterReport, err error) {
	body := dlq.ReplayLetters{PurgeLetters: selectedLetters(sel, o.DryRun), AsBackfill: o.AsBackfill}
	err = l.post(ctx, "/dlq/replay", body, &report)
	return report, err
}

// Purge deletes letters.
func (l DeadLetters) Purge(ctx context.Context, sel dlq.Selection, dryRun bool) (report dlq.LetterReport, err error) {
	err = l.post(ctx, "/dlq/purge", selectedLetters(sel, dryRun), &report)
	return report, err
}

func selectedLetters(sel dlq.Selection, dryRun bool) dlq.PurgeLetters {
	return dlq.PurgeLetters{
		IDs: sel.IDs, Filter: letterFilter(sel.Filter), All: sel.All, DryRun: dryRun, Limit: sel.Limit,
		Cursor: sel.Cursor.String(),
	}
}

func letterFilter(f dlq.Filter) dlq.LetterFilter {
	out := dlq.LetterFilter{Stream: f.Stream, Code: f.Code, Field: f.Field, Subject: f.Subject}
	if !f.Since.IsZero() {
		out.Since = f.Since.UTC().Format(time.RFC3339Nano)
	}
	if !f.Until.IsZero() {
		out.Until = f.Until.UTC().Format(time.RFC3339Nano)
	}
	return out
}
