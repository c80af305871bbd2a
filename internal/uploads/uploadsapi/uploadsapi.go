package uploadsapi

import (
	"context"
	"encoding/hex"
	"errors"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/uuid"

	"github.com/millrace-io/millrace/internal/auth"
	"github.com/millrace-io/millrace/internal/endpoint"
	"github.com/millrace-io/millrace/internal/httpapi"
	"github.com/millrace-io/millrace/internal/tabular"
	"github.com/millrace-io/millrace/internal/uploads"

	"github.com/millrace-io/millrace/schemas/instant"
	schema "github.com/millrace-io/millrace/schemas/uploads"
)

// ViewerFrom returns who sends a request: admins see the uploads of all users, and so does everybody
// where there are no tokens.
func ViewerFrom(ctx context.Context) uploads.Viewer {
	c := auth.CallerFrom(ctx)
	return uploads.Viewer{Subject: c.Subject, All: c.Has(auth.Admin)}
}

// UploadID is the path of an upload.
type UploadID struct {
	httpapi.Params
	JobID string `path:"jobId" maxLength:"64" doc:"The upload's id" example:"0199f0a2-7c1e-7000-8000-000000000001"`
}

// UUID returns the id. A text that is not an id names no upload.
func (r UploadID) UUID() uuid.UUID { return parse(r.JobID) }

func parse(text string) uuid.UUID {
	id, err := uuid.Parse(text)
	if err != nil || id.String() != text {
		return uuid.Nil
	}
	return id
}

// ProcessorRule is what a processor has to be.
const ProcessorRule = "must be copy, or the name of a queue that exists and is not one of Millrace's own"

// Known turns errors of uploads into what the caller is told.
func Known(err error) error {
	var state *uploads.StateError
	var limit *uploads.LimitError
	switch {
	case errors.Is(err, uploads.ErrNotFound):
		return endpoint.NotFound("jobId", "must be that of an upload of yours")
	case errors.Is(err, uploads.ErrNoExport):
		return endpoint.NotFound("exportId", "must be that of an export of this upload that has not expired")
	case errors.Is(err, uploads.ErrProcessor):
		return httpapi.NewProblem(400, "the processor breaks a rule", httpapi.FieldError{
			Field: "processor", Code: "processor", Rule: ProcessorRule,
		})
	case errors.As(err, &state):
		return httpapi.NewProblem(409, state.Rule,
			httpapi.FieldError{Field: "queue_state", Code: "state", Rule: state.Rule})
	case errors.As(err, &limit):
		return httpapi.NewProblem(409, limit.Rule, httpapi.FieldError{Code: "limit_" + limit.Code, Rule: limit.Rule})
	}
	return nil
}

// Reading is how a file is read, where callers say so themselves.
type Reading struct {
	Encoding  string
	Delimiter string
}

// Check returns the encoding and the delimiter, or which is wrong.
func (r Reading) Check() (encoding string, delimiter byte, errs []error) {
	if r.Encoding != "" {
		var known bool
		if encoding, known = tabular.Encoding(r.Encoding); !known {
			errs = append(errs, httpapi.FieldError{
				Field: "encoding", Code: "encoding", Rule: "must be a name of the WHATWG Encoding Standard, such as utf-8 or windows-1252",
			})
		}
	}
	switch name := strings.ToLower(r.Delimiter); {
	case name == "":
	case name == "tab":
		delimiter = '\t'
	case len(name) == 1 && strings.Contains(tabular.Delimiters, name):
		delimiter = name[0]
	default:
		errs = append(errs, httpapi.FieldError{
			Field: "delimiter", Code: "delimiter", Rule: "must be a comma, a semicolon, a bar, or a tab, which may be written as tab",
		})
	}
	return encoding, delimiter, errs
}

// UploadStatuses is how many items have each status.
type UploadStatuses struct {
	Pending    int32 `json:"PENDING"`
	Processing int32 `json:"PROCESSING"`
	Done       int32 `json:"DONE"`
	Error      int32 `json:"ERROR"`
	NotFound   int32 `json:"NOT_FOUND"`
	Skipped    int32 `json:"SKIPPED"`
}

// UploadedFile is the file of an upload.
type UploadedFile struct {
	Name   string `json:"name" example:"products.csv"`
	Size   int64  `json:"size" doc:"Bytes"`
	SHA256 string `json:"sha256" doc:"In hexadecimal digits"`
	Format string `json:"format" enum:"csv,ndjson,xlsx,zip"`
}

// Upload is a job.
type Upload struct {
	JobID         string            `json:"jobId" example:"0199f0a2-7c1e-7000-8000-000000000001"`
	Name          string            `json:"name"`
	File          UploadedFile      `json:"file"`
	User          string            `json:"user" doc:"sub of the token that the file came with; empty where there are no tokens"`
	Address       string            `json:"address" doc:"That the file came from"`
	Processor     string            `json:"processor" doc:"copy, or the queue whose workers make the results" example:"copy"`
	Mapping       map[string]string `json:"mapping" nullable:"false" doc:"Names of columns by field"`
	Encoding      string            `json:"encoding" doc:"Empty for XLSX, and for a zip unless it was said" example:"windows-1252"`
	Delimiter     string            `json:"delimiter" doc:"Of CSV; else empty" example:","`
	Columns       []string          `json:"columns" nullable:"false" doc:"Names of the columns as results have them: two headers alike are told apart by a number, and an empty one is column_N. Empty until they are read, and for JSON lines"`
	QueueState    string            `json:"queue_state" enum:"QUEUED,RUNNING,PAUSED,DONE,FAILED"`
	Cancelled     bool              `json:"cancelled" doc:"It was cancelled: no more rows are persisted, and what was pending is SKIPPED"`
	Persisted     bool              `json:"persisted" doc:"All rows of the file are persisted"`
	TotalItems    int32             `json:"total_items" doc:"Rows that are items so far"`
	Processed     int32             `json:"processed_items" doc:"Items with a final status"`
	FailedItems   int32             `json:"failed_items" doc:"Those of them that are ERROR or NOT_FOUND"`
	RejectedRows  int32             `json:"rejected_rows" doc:"Rows that break a rule, and are no items"`
	Statuses      UploadStatuses    `json:"statuses"`
	Attempts      int32             `json:"attempts" doc:"How often a process began to work on it"`
	LastError     *string           `json:"last_error" doc:"What keeps it from going on, or ended it"`
	LastHeartbeat time.Time         `json:"last_heartbeat" doc:"When a process last worked on it"`
	CreatedAt     time.Time         `json:"created_at"`
	StartedAt     *time.Time        `json:"started_at"`
	FinishedAt    *time.Time        `json:"finished_at"`
	RowsSec       float32           `json:"rows_sec" doc:"Rows a second that were persisted, once all are"`
	ItemsSec      float32           `json:"items_sec" doc:"Items a second that were processed from started_at until the first time that all were; 0 before"`
}

// UploadOf is what a job looks like.
func UploadOf(j uploads.Job) Upload {
	u := Upload{
		JobID: j.ID.String(), Name: j.Name,
		File: UploadedFile{Name: j.FileName, Size: j.Size, SHA256: hex.EncodeToString(j.SHA256), Format: j.Format.Kind},
		User: j.Owner, Address: j.Address, Processor: j.Processor, Mapping: j.Mapping, Encoding: j.Format.Encoding,
		Columns: tabular.Keys(j.Header), QueueState: j.State, Cancelled: j.CancelledAt != nil, Persisted: j.ReadAll,
		TotalItems: j.Total(), Processed: j.Processed(), FailedItems: j.FailedItems(), RejectedRows: j.Rejected,
		Statuses: UploadStatuses{
			j.Counts[schema.Pending], j.Counts[schema.Processing], j.Counts[schema.StatusDone], j.Counts[schema.Error],
			j.Counts[schema.NotFound], j.Counts[schema.Skipped],
		},
		Attempts: j.Attempts, LastError: j.LastError, LastHeartbeat: At(j.LastHeartbeat), CreatedAt: At(j.CreatedAt),
		StartedAt: utc(j.StartedAt), FinishedAt: utc(j.FinishedAt), RowsSec: j.RowsSec, ItemsSec: j.ItemsSec,
	}
	if j.Format.Delimiter != 0 {
		u.Delimiter = string(j.Format.Delimiter)
	}
	if u.Mapping == nil {
		u.Mapping = map[string]string{}
	}
	return u
}

func utc(t *time.Time) *time.Time {
	if t == nil {
		return nil
	}
	u := At(*t)
	return &u
}

// At is a time of an answer, within what JSON can say.
func At(t time.Time) time.Time {
	t, _ = instant.Clamp(t)
	return t
}

// Security is what operations on uploads ask for, as the API's description has it.
func Security() []map[string][]string { return auth.Security(auth.Uploads) }

// PathParam describes jobId for a plain handler.
func PathParam() *huma.Param {
	return &huma.Param{
		Name: "jobId", In: "path", Required: true, Description: "The upload's id", Schema: &huma.Schema{Type: huma.TypeString},
	}
}
