package shards

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/millrace-io/millrace/internal/auth"
	"github.com/millrace-io/millrace/internal/httpapi"
	"github.com/millrace-io/millrace/internal/tracking"
	"github.com/millrace-io/millrace/internal/tracking/trackingapi"
	"github.com/millrace-io/millrace/schemas/shard"
)

// Handler answers the commands.
type Handler struct {
	store *tracking.Store
	auth  *auth.Auth
	log   *slog.Logger
}

// New returns the handler; Register puts it on a server.
func New(store *tracking.Store, a *auth.Auth, log *slog.Logger) (*Handler, error) {
	if store == nil || a == nil || log == nil {
		return nil, errors.New("shard commands: the state, authentication and a logger are needed")
	}
	return &Handler{store, a, log}, nil
}

// Register adds the routes: commands for the scope work, and what operators do
// for admin.
func (h *Handler) Register(srv *httpapi.Server) {
	api := trackingapi.API{Server: srv, Auth: h.auth, Log: h.log}
	work := func(id, path, summary, text string) trackingapi.Operation {
		return trackingapi.Operation{ID: id, Path: path, Summary: summary, Text: text, Scope: auth.Work}
	}
	trackingapi.Post(api, work("register-file", "/files/register", "Register a file and its shards",
		"Makes an item for each shard that the file lacks. Items that exist stay as they are."), h.register)
	trackingapi.Post(api, work("finish-event-ingest", "/stages/event-ingest/done", "Mark a file as complete",
		"Its shards become ready for shard-splitter."), h.finishIngest)
	trackingapi.Post(api, work("move-item", "/stages/{stage}/{transition}", "Move an item at a stage",
		"start, done and fail are what the daemons report, and retry brings a failed item back to new. A move that the status does not allow answers 409 "+
			"with current_status; one that was made before answers 200 and changes nothing. Beyond these: release gives a started item back without "+
			"counting the attempt, again gives it back with the attempt counted (it fails, and is dead, when none is left), and extend moves the end of its lease."), h.move)
	trackingapi.Post(api, work("move-items", "/stages/{stage}/{transition}/bulk", "Move up to 5,000 items at a stage",
		"Each item is judged by itself, and the answer says of each what became of it. They move in one transaction; start may have one for each few of them."), h.moveMany)
	trackingapi.Post(api, work("take-items", "/queues/{stage}/take", "Take items that are ready for a stage",
		"They are started for the worker, and for nobody else, until it reports or the lease ends: then they are new again, with the attempt counted."), h.take)
	h.registerAdmin(api)
}

// RegisterFile is the body of POST /files/register.
type RegisterFile struct {
	Filename string  `json:"filename" doc:"The prefix of the file's name before .event-ingest.txt; 1 to 255 bytes without slashes and control characters" example:"20250101000000"`
	Shards   []int64 `json:"shards" nullable:"false" doc:"Its shards: 1 to 4,096 numbers" example:"[0,1]"`
	Priority int16   `json:"priority,omitempty" minimum:"0" maximum:"9" doc:"Of a file that is new: items of higher ones are taken first"`
}

// Registered is the answer.
type Registered struct {
	Filename string  `json:"filename" example:"20250101000000"`
	Shards   []int64 `json:"shards" example:"[0,1]"`
	Created  bool    `json:"created" doc:"Whether any item was made"`
}

func (h *Handler) register(ctx context.Context, in *trackingapi.Body[RegisterFile]) (Registered, error) {
	b := in.Body
	if err := shard.CheckFilename(b.Filename); err != nil {
		return Registered{}, err
	}
	if err := shard.CheckShards(b.Shards); err != nil {
		return Registered{}, err
	}
	shards := make([]int32, len(b.Shards))
	for i, s := range b.Shards {
		shards[i] = int32(s)
	}
	made, err := h.store.Register(ctx, []tracking.Registration{{Filename: b.Filename, Shards: shards, Priority: b.Priority}})
	if err != nil {
		return Registered{}, err
	}
	return Registered{b.Filename, b.Shards, made[0] > 0}, nil
}

// FinishIngest is the body of POST /stages/event-ingest/done.
type FinishIngest struct {
	Filename string   `json:"filename" example:"20250101000000"`
	DelayS   *float64 `json:"delay_s,omitempty" doc:"Seconds until its shards stand in the queue of shard-splitter; default 0"`
}

// Finished is the answer.
type Finished struct {
	Filename    string `json:"filename" example:"20250101000000"`
	UpdatedRows int    `json:"updated_rows" doc:"Items that were not done yet" example:"2"`
}

func (h *Handler) finishIngest(ctx context.Context, in *trackingapi.Body[FinishIngest]) (Finished, error) {
	b := in.Body
	if err := shard.CheckFilename(b.Filename); err != nil {
		return Finished{}, err
	}
	delay, err := seconds(b.DelayS, shard.CheckDelay)
	if err != nil {
		return Finished{}, err
	}
	n, err := h.store.FinishIngest(ctx, b.Filename, tracking.Command{Delay: delay})
	return Finished{b.Filename, n}, err
}

// seconds checks an optional number of seconds.
func seconds(s *float64, check func(float64) error) (time.Duration, error) {
	if s == nil {
		return 0, nil
	}
	if err := check(*s); err != nil {
		return 0, err
	}
	return time.Duration(*s * float64(time.Second)), nil
}
