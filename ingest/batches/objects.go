package batches

import (
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/millrace-io/millrace/internal/auth"
	"github.com/millrace-io/millrace/internal/httpapi"
	"github.com/millrace-io/millrace/internal/objects"
	"github.com/millrace-io/millrace/schemas/object"
)

// StoredObject says what an object is.
type StoredObject struct {
	Bucket string `json:"bucket" example:"crawl-results"`
	Key    string `json:"key" example:"tiktok/proj_xyz/brand/batch_001.json"`
	Size   int64  `json:"size" doc:"Bytes, as they were sent"`
	SHA256 string `json:"sha256" doc:"In hexadecimal digits"`
}

func (h *Handler) registerObjects(s *httpapi.Server) {
	text := &huma.Schema{Type: huma.TypeString}
	s.HandleBelow(&huma.Operation{
		OperationID: "put-object", Method: http.MethodPut, Path: "/objects/{bucket}/{key}", Tags: []string{"Batches"},
		Summary: "Store an object in the NATS Object Store",
		Description: fmt.Sprintf("The body is the object, of any type and at most %d MiB. Slashes in the key may be "+
			"written as they are. The bucket is made if there are fewer than %d. An object is never overwritten: "+
			"409 when other content has its name. After 503 send the same request again.", objects.MaxSize>>20,
			objects.MaxBuckets),
		Security: auth.Security(auth.EventsWrite),
		Parameters: []*huma.Param{
			{Name: "bucket", In: "path", Required: true, Schema: text, Example: "crawl-results"},
			{Name: "key", In: "path", Required: true, Schema: text, Example: "tiktok/batch_001.json"},
		},
		RequestBody: &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{
			"application/octet-stream": {Schema: &huma.Schema{Type: huma.TypeString, Format: "binary"}},
		}},
		Responses: s.Problems(map[string]*huma.Response{
			"201": s.Answer("It is stored", StoredObject{}), "200": s.Answer("It was there already", StoredObject{}),
		}, 400, 401, 403, 408, 409, 413, 503),
	}, http.HandlerFunc(h.putObject), h.deps.Auth.Require(auth.EventsWrite), httpapi.LimitBody(objects.MaxSize))
}

func (h *Handler) putObject(w http.ResponseWriter, r *http.Request) {
	o := object.Name{Bucket: httpapi.PathParam(r, "bucket"), Key: httpapi.PathParam(r, httpapi.Below)}
	if err := o.Check(); err != nil {
		httpapi.WriteProblem(w, refused("object_name", err.Error()))
		return
	}
	body := &sent{from: r.Body}
	stored, err := h.deps.Objects.Put(r.Context(), o, body)
	switch {
	case body.err != nil:
		httpapi.WriteProblem(w, httpapi.BodyProblem(body.err))
	case err != nil:
		httpapi.WriteProblem(w, h.problem(err))
	default:
		status := http.StatusOK
		if stored.Made {
			status = http.StatusCreated
		}
		httpapi.WriteJSON(w, status, StoredObject{o.Bucket, o.Key, stored.Size, hex.EncodeToString(stored.SHA256[:])})
	}
}

func (h *Handler) problem(err error) *httpapi.Problem {
	conflict := func(field, code, rule string) *httpapi.Problem {
		return httpapi.NewProblem(http.StatusConflict, rule, httpapi.FieldError{Field: field, Code: code, Rule: rule})
	}
	switch {
	case errors.Is(err, objects.ErrConflict):
		return conflict("key", "object_exists", "must be free, or name an object with the same content")
	case errors.Is(err, objects.ErrTooManyBuckets):
		return conflict("bucket", "too_many_buckets", "must be there already: "+objects.ErrTooManyBuckets.Error())
	case errors.Is(err, objects.ErrBucketName):
		return refused("object_name", objects.ErrBucketName.Error())
	}
	h.deps.Log.Warn("NATS is away or too slow to store an object", "error", err)
	return httpapi.NewProblem(http.StatusServiceUnavailable, "NATS is away or too slow; send the same request again").
		WithHeader("Retry-After", "1")
}

func refused(code, rule string) *httpapi.Problem {
	return httpapi.NewProblem(http.StatusBadRequest, rule, httpapi.FieldError{Field: "key", Code: code, Rule: rule})
}
