package events

import (
	"context"
	"fmt"

	"github.com/danielgtaylor/huma/v2"

	"github.com/millrace-io/millrace/internal/httpapi"
	"github.com/millrace-io/millrace/query/pipeline/store"
	"github.com/millrace-io/millrace/query/reads"
)

const (
	// maxExport bounds the events of an export.
	maxExport = 1_000_000
	// exportPage is how many events of an export are held at one time, or fewer,
	// up to the one whose metadata fills 8 MiB.
	exportPage = 5_000
)

// ExportRequest are the parameters of GET /events/export.
type ExportRequest struct {
	httpapi.Params
	EventFilters
	reads.Format
	Limit int `query:"limit" minimum:"1" maximum:"1000000" doc:"Only the newest so many events. Without it all of them; more than 1,000,000 are refused"`
}

// Resolve implements huma.Resolver.
func (r *ExportRequest) Resolve(ctx huma.Context) []error {
	return reads.Resolve(ctx, r.Params, func(h *Handler) reads.Faults { _, f := h.eventFilter(r.EventFilters); return f })
}

// export answers with the events that pass a filter. It reads them in pages, so
// that neither memory nor the time of a query grows with their number. Events
// that come meanwhile are in the file if their place in its order was still to
// be written.
func (h *Handler) export(ctx context.Context, r ExportRequest) (reads.File, error) {
	f, faults := h.eventFilter(r.EventFilters)
	if err := faults.Err(); err != nil {
		return reads.File{}, err
	}
	if err := h.checkExport(ctx, f, r.Limit); err != nil {
		return reads.File{}, err
	}
	return eventTable.File(r.Format, h.Now(), h.exported(f, r.Limit)), nil
}

// checkExport refuses an export of all events where these are too many: what is
// left out would be missed by nobody until it is.
func (h *Handler) checkExport(ctx context.Context, f store.EventFilter, limit int) error {
	if limit > 0 {
		return nil
	}
	f.Limit = h.maxExport
	exceed, err := h.Store.Exceed(ctx, f)
	if err == nil && exceed {
		err = reads.Broken("limit", "export_size", fmt.Sprintf(
			"is required: more than %d events pass these filters; ask for the newest of them, or narrow from and to",
			h.maxExport,
		))
	}
	return err
}

// exported are the pages of the newest events up to a limit, 0 for all.
func (h *Handler) exported(f store.EventFilter, limit int) reads.Pages[StoredEvent] {
	written := 0
	return func(ctx context.Context) ([]StoredEvent, bool, error) {
		f.Limit = exportPage
		if limit > 0 {
			f.Limit = min(exportPage, limit-written)
		}
		page, next, err := h.exportPage(ctx, f)
		f.After, written = next, written+len(page)
		return page, next != store.EventCursor{} && (limit == 0 || written < limit), err
	}
}

// exportPage returns events, and after which the next ones are: the zero value
// where there are none.
func (h *Handler) exportPage(
	ctx context.Context, f store.EventFilter,
) (page []StoredEvent, next store.EventCursor, err error) {
	leave, err := h.reading.Enter(ctx)
	if err != nil {
		return nil, next, err
	}
	defer leave()
	rows, more, err := h.Store.Events(ctx, f)
	if err != nil {
		return nil, next, err
	}
	page = make([]StoredEvent, 0, len(rows))
	for _, row := range rows {
		page = append(page, newEvent(row))
	}
	if more {
		next = cursorOf(rows)
	}
	return page, next, nil
}
