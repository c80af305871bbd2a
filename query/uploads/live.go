package uploads

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/millrace-io/millrace/internal/auth"
	"github.com/millrace-io/millrace/internal/httpapi"
	"github.com/millrace-io/millrace/internal/uploads"
	"github.com/millrace-io/millrace/internal/uploads/uploadsapi"
	"github.com/millrace-io/millrace/query/live"
	"github.com/millrace-io/millrace/query/reads"

	schema "github.com/millrace-io/millrace/schemas/uploads"
)

const (
	// liveEvery is how often the view is computed while someone watches.
	liveEvery = 250 * time.Millisecond
	// liveSlow is how long a snapshot takes that is computed less often.
	liveSlow = 250 * time.Millisecond
	// liveTimeout bounds a snapshot.
	liveTimeout = 10 * time.Second
	// liveNewest is how many uploads the view lists.
	liveNewest = 50
)

// View returns the live view of uploads.
func (h *Handler) View() live.View {
	return live.View{
		Name: "uploads", Summary: "as GET /uploads shows the newest 50, or one upload alone",
		Scope: auth.Uploads, State: reflect.TypeFor[UploadPage](), Every: liveEvery, Open: h.openLive,
		Params: []live.Param{
			{Name: "jobId", Doc: "Only this upload; empty: all", Example: "0199f0a2-7c1e-7000-8000-000000000001"},
			{Name: "queue_state", Doc: "Only uploads in this state; empty: any", Enum: append([]string{""}, schema.States...)},
			{Name: "processor", Doc: "Only uploads with this processor; empty: any", Example: "copy"},
			{Name: "user", Doc: "Only uploads of this user; others than your own are for admins; empty: all that you may see"},
		},
	}
}

// openLive checks a question. The key says who may see the answer: users see their own uploads alone.
func (h *Handler) openLive(caller auth.Caller, v live.Values) (key string, s live.Source, p *httpapi.Problem) {
	var broken []httpapi.FieldError
	wrong := func(field, code, rule string) {
		broken = append(broken, httpapi.FieldError{Field: field, Code: code, Rule: rule})
	}
	of := &liveSource{
		Handler: h, caller: caller,
		list: ListUploadsRequest{QueueState: v["queue_state"], Processor: v["processor"], User: v["user"], Limit: liveNewest},
	}
	if state := v["queue_state"]; state != "" && !slices.Contains(schema.States, state) {
		wrong("queue_state", "enum", "must be one of "+strings.Join(schema.States, ", "))
	}
	for field, most := range map[string]int{"processor": 255, "user": 1024} {
		if text := v[field]; len(text) > most || !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
			wrong(field, "utf8", fmt.Sprintf("must be valid UTF-8 without NUL, of up to %d bytes", most))
		}
	}
	if id := v["jobId"]; id != "" {
		one, err := uuid.Parse(id)
		if err != nil || one.String() != id {
			wrong("jobId", "uuid", "must be the id of an upload")
		}
		if v["queue_state"]+v["processor"]+v["user"] != "" {
			wrong("jobId", "alone", "must not stand beside another parameter")
		}
		of.one = &one
	}
	if len(broken) > 0 {
		return "", nil, httpapi.NewProblem(400, "the request breaks a rule", broken...)
	}
	viewer := "all"
	if !caller.Has(auth.Admin) {
		viewer = fmt.Sprintf("%q", caller.Subject)
	}
	key = fmt.Sprintf("%s %q %q %q %q", viewer, v["jobId"], v["queue_state"], v["processor"], v["user"])
	return key, of, nil
}

// liveSource computes the snapshots of one question, for callers who may see the same.
type liveSource struct {
	*Handler
	caller auth.Caller
	list   ListUploadsRequest
	one    *uuid.UUID // only this upload
}

// Changed implements live.Source: Postgres does not say when rows change.
func (*liveSource) Changed() <-chan struct{} { return nil }

// Snapshot implements live.Source. One statement reads all of it, so that counters add up.
func (s *liveSource) Snapshot(ctx context.Context) (live.Snapshot, error) {
	ctx, cancel := context.WithTimeout(auth.WithCaller(ctx, s.caller), liveTimeout)
	defer cancel()
	begun := time.Now()
	page, err := s.page(ctx)
	if err != nil {
		return live.Snapshot{}, live.Unavailable("uploads are not known while Postgres is away or slow", err)
	}
	body, err := json.Marshal(page)
	if err != nil {
		return live.Snapshot{}, fmt.Errorf("encode uploads: %w", err)
	}
	return live.Snapshot{Body: body, Numbers: string(body), Slow: time.Since(begun) > liveSlow}, nil
}

// page is what the view shows. An upload that is not there, or is another's, is an empty page.
func (s *liveSource) page(ctx context.Context) (UploadPage, error) {
	if s.one == nil {
		return s.Handler.list(ctx, &s.list)
	}
	page := UploadPage{reads.List[uploadsapi.Upload]{Items: []uploadsapi.Upload{}}}
	j, err := s.Store.Get(ctx, uploadsapi.ViewerFrom(ctx), *s.one)
	if errors.Is(err, uploads.ErrNotFound) {
		return page, nil
	}
	page.Items = append(page.Items, uploadsapi.UploadOf(j))
	return page, err
}
