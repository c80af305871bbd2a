package batches

import (
	"errors"
	"io"
	"mime"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/millrace-io/millrace/internal/auth"
	"github.com/millrace-io/millrace/internal/httpapi"
	"github.com/millrace-io/millrace/internal/objects"
	"github.com/millrace-io/millrace/schemas/stream"

	schema "github.com/millrace-io/millrace/schemas/batches"
)

// Announced says which batch was announced.
type Announced struct {
	JobID      string `json:"job_id" example:"proj_xyz-brand-0" doc:"Empty after a notification: the object says its job"`
	BatchIndex int32  `json:"batch_index" example:"1" doc:"0 after a notification: the object says its index"`
	Format     string `json:"format" enum:"event,legacy,inline,notification" doc:"As which of the formats the document was read"`
	Sequence   uint64 `json:"sequence" doc:"Of the message in the stream BATCHES"`
}

const announceText = "The document is a `data.collected` event, whose `payload.minio_path` names bucket and key of " +
	"an object; a legacy message with `data_ref`; inline `items` with `job_id` and `batch_index`; or a notification of a " +
	"bucket of S3 or MinIO (`Records`). 202 says that the " +
	"message is on disk. The object may come later. After 503 send the same request again: a batch that is announced " +
	"twice counts once."

func (h *Handler) registerAnnounce(s *httpapi.Server) {
	s.Handle(&huma.Operation{
		OperationID: "announce-batch", Method: http.MethodPost, Path: "/batches", Tags: []string{"Batches"},
		Summary: "Announce a batch of crawled items, or send its items", Description: announceText,
		Security: auth.Security(auth.EventsWrite),
		RequestBody: &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{
			"application/json": {Schema: &huma.Schema{Type: huma.TypeObject, Examples: []any{map[string]any{
				"payload": map[string]any{
					"minio_path": "crawl-results/tiktok/batch_001.json", "job_id": "proj_xyz-brand-0", "batch_index": 1,
					"content_count": 50, "platform": "tiktok", "task_type": "research_and_crawl", "keyword": "VinFast VF8",
				},
			}}}},
		}},
		Responses: s.Problems(map[string]*huma.Response{"202": s.Answer("It is announced", Announced{})},
			400, 401, 403, 408, 413, 415, 503),
	}, http.HandlerFunc(h.announce), h.deps.Auth.Require(auth.EventsWrite), httpapi.LimitBody(objects.MaxSize))
}

func (h *Handler) announce(w http.ResponseWriter, r *http.Request) {
	const want = "application/json"
	header := r.Header.Get("Content-Type")
	if got, _, err := mime.ParseMediaType(header); err != nil || got != want {
		httpapi.WriteProblem(w, httpapi.UnsupportedType(header, want))
		return
	}
	limit := h.deps.JetStream.Conn().MaxPayload()
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	if err != nil {
		httpapi.WriteProblem(w, tooLongForNATS(err, limit))
		return
	}
	a, broken := schema.ReadAnnouncement(text)
	if broken != nil {
		errs := make([]httpapi.FieldError, len(broken))
		for i, b := range broken {
			errs[i] = httpapi.FieldError(b)
		}
		httpapi.WriteProblem(w, httpapi.NewProblem(http.StatusBadRequest, "the announcement breaks a rule", errs...))
		return
	}
	ctx, span := published(r.Context(), stream.BatchCollected)
	ack, err := h.deps.JetStream.PublishMsg(ctx, traced(ctx, stream.BatchCollected, text))
	end(span, err)
	if err != nil {
		httpapi.WriteProblem(w, h.problem(err))
		return
	}
	httpapi.WriteJSON(w, http.StatusAccepted, Announced{a.Batch.Job, a.Batch.Index, a.Format.String(), ack.Sequence})
}

// tooLongForNATS is the problem of a body that cannot be read, or is no message of NATS.
func tooLongForNATS(err error, limit int64) *httpapi.Problem {
	var long *http.MaxBytesError
	p := httpapi.BodyProblem(err)
	if errors.As(err, &long) && len(p.Errors) > 0 {
		p = httpapi.TooLarge(limit)
		p.Errors[0].Rule += "; store more items with PUT /objects, and announce the object"
	}
	return p
}
