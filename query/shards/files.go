package shards

import (
	"context"
	"time"

	"github.com/millrace-io/millrace/internal/httpapi"
	"github.com/millrace-io/millrace/internal/tracking"
	"github.com/millrace-io/millrace/query/reads"
	"github.com/millrace-io/millrace/schemas/item"
	"github.com/millrace-io/millrace/schemas/shard"
)

// FilesRequest are the parameters of GET /files.
type FilesRequest struct {
	httpapi.Params
	Search string `query:"search" maxLength:"255" doc:"Only files whose names contain this" example:"202501"`
	Status string `query:"status" enum:"new,started,done,failed" doc:"Only files with an item of this status; done: of which all items are done"`
	Stage  string `query:"stage" doc:"With status: at this stage; otherwise at any, and for done at the last" example:"shard-worker"`
	Limit  int    `query:"limit" minimum:"1" maximum:"500" default:"100" doc:"How many files at most"`
	Cursor string `query:"cursor" maxLength:"1000" doc:"next_cursor of the page before, with the same filters"`
}

// File is a file in numbers.
type File struct {
	Filename    string     `json:"filename" example:"20250101000000"`
	Shards      int64      `json:"shards" doc:"Its items"`
	Started     int64      `json:"started" doc:"Items that a worker has now"`
	Done        int64      `json:"done" doc:"Items that are done at mysql-sender"`
	Failed      int64      `json:"failed" doc:"Items that have failed at some stage"`
	Priority    int16      `json:"priority"`
	CreatedAt   time.Time  `json:"created_at"`
	UpdatedAt   time.Time  `json:"updated_at"`
	CancelledAt *time.Time `json:"cancelled_at,omitempty"`
}

// Files is the answer.
type Files struct {
	Files      []File `json:"files"`
	NextCursor string `json:"next_cursor,omitempty" doc:"For the next page; absent from the last"`
}

var fileCursor = reads.JSON(func(at tracking.FilePlace) bool { return shard.CheckFilename(at.Filename) == nil })

func (h *Handler) files(ctx context.Context, in *FilesRequest) (Files, error) {
	page := tracking.FilesPage{Search: in.Search, Limit: in.Limit + 1}
	if status, ok := item.ParseStatus(in.Status); ok {
		page.Status = &status
	}
	if in.Stage != "" {
		stage, ok := shard.ParseStage(in.Stage)
		if !ok || page.Status == nil {
			return Files{}, &item.Invalid{
				Field: "stage", Code: "stage_unknown",
				Rule: "must be event-ingest, shard-splitter, shard-worker or mysql-sender, together with status",
			}
		}
		page.Stage = &stage
	}
	if err := printable("search", in.Search); err != nil {
		return Files{}, err
	}
	if err := fileCursor.Read(in.Cursor, &page.After); err != nil {
		return Files{}, err
	}
	files, err := h.store.Files(ctx, page)
	if err != nil {
		return Files{}, err
	}
	files, next := reads.Cut(fileCursor, files, in.Limit, func(f tracking.FileState) *tracking.FilePlace { return &f.FilePlace })
	out := Files{Files: make([]File, 0, len(files)), NextCursor: next}
	for _, f := range files {
		out.Files = append(out.Files, File{
			Filename: f.Filename, Shards: f.Shards, Started: f.Started, Done: f.Done, Failed: f.Failed,
			Priority:  f.Priority,
			CreatedAt: f.CreatedAt.UTC(), UpdatedAt: f.UpdatedAt.UTC(), CancelledAt: f.CancelledAt,
		})
	}
	return out, nil
}

// printable refuses text that no name contains; empty is fine.
func printable(field, text string) error {
	if text == "" {
		return nil
	}
	if invalid, ok := shard.CheckFilename(text).(*item.Invalid); ok && invalid.Code != "dots" {
		return &item.Invalid{Field: field, Code: invalid.Code, Rule: invalid.Rule}
	}
	return nil
}

// FileRequest names a file.
type FileRequest struct {
	httpapi.Params
	Filename string `path:"filename" example:"20250101000000"`
	Detail   bool   `query:"detail" doc:"Also who took each item at each stage, when, how often, and the last error"`
}

// StageDetail is an item at a stage.
type StageDetail struct {
	Generation int32      `json:"generation"`
	Attempts   int32      `json:"attempts" doc:"How often it was taken"`
	Worker     string     `json:"worker,omitempty" doc:"Who took it last"`
	TakenAt    *time.Time `json:"taken_at,omitempty"`
	Error      string     `json:"error,omitempty" doc:"The last one"`
}

// ShardState is an item.
type ShardState struct {
	Shard         int32                  `json:"shard" example:"0"`
	EventIngest   string                 `json:"event_ingest_status" enum:"new,started,done,failed" example:"done"`
	ShardSplitter string                 `json:"shard_splitter_status" enum:"new,started,done,failed" example:"done"`
	ShardWorker   string                 `json:"shard_worker_status" enum:"new,started,done,failed" example:"started"`
	MySQLSender   string                 `json:"mysql_sender_status" enum:"new,started,done,failed" example:"new"`
	UpdatedAt     time.Time              `json:"updated_at" example:"2025-01-01T00:05:00Z"`
	Stages        map[string]StageDetail `json:"stages,omitempty" doc:"With detail; by the stage's column"`
}

// FileState is the answer of GET /files/{filename}.
type FileState struct {
	Filename    string       `json:"filename" example:"20250101000000"`
	CancelledAt *time.Time   `json:"cancelled_at,omitempty" doc:"Absent where the file was not cancelled"`
	Shards      []ShardState `json:"shards" doc:"By shard"`
}

func (h *Handler) file(ctx context.Context, in *FileRequest) (FileState, error) {
	name, err := shard.Filename(in.Filename)
	if err != nil {
		return FileState{}, err
	}
	items, err := h.store.File(ctx, name)
	if err != nil {
		return FileState{}, err
	}
	cancelled, err := h.store.CancelledAt(ctx, name)
	out := FileState{Filename: name, CancelledAt: cancelled, Shards: make([]ShardState, 0, len(items))}
	for _, it := range items {
		v := ShardState{
			Shard: it.Shard, UpdatedAt: it.UpdatedAt.UTC(),
			EventIngest:   it.Stages[shard.EventIngest].Status.String(),
			ShardSplitter: it.Stages[shard.Splitter].Status.String(),
			ShardWorker:   it.Stages[shard.Worker].Status.String(),
			MySQLSender:   it.Stages[shard.Sender].Status.String(),
		}
		if in.Detail {
			v.Stages = details(it)
		}
		out.Shards = append(out.Shards, v)
	}
	return out, err
}

func details(it tracking.ShardState) map[string]StageDetail {
	out := map[string]StageDetail{}
	for _, stage := range shard.Queues {
		s := it.Stages[stage]
		d := StageDetail{Generation: s.Generation, Attempts: s.Attempts, Worker: s.Worker, Error: s.Error}
		if !s.TakenAt.IsZero() {
			at := s.TakenAt.UTC()
			d.TakenAt = &at
		}
		out[stage.Column()] = d
	}
	return out
}
