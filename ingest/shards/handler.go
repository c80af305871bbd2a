package shards

import (
	"context"
	"errors"
	"time"

	"github.com/millrace-io/millrace/internal/auth"
	"github.com/millrace-io/millrace/internal/endpoint"
	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/internal/queue/handout"
	"github.com/millrace-io/millrace/internal/queue/queueapi"
	"github.com/millrace-io/millrace/internal/tracking"
	"github.com/millrace-io/millrace/schemas/item"
	"github.com/millrace-io/millrace/schemas/shard"
)

// Handler answers the commands.
type Handler struct {
	store *tracking.Store
	hands *handout.Handout
}

// New returns the handler; Register puts it on a server.
func New(store *tracking.Store, hands *handout.Handout) *Handler { return &Handler{store, hands} }

// Register adds the routes: commands for the scope work, and what operators do
// for admin.
func (h *Handler) Register(api endpoint.API) {
	api = tracking.API(api)
	work := endpoint.For(auth.Work)
	endpoint.Post(api, work("register-file", "/files/register", "Register a file and its shards",
		"Makes an item for each shard that the file lacks. Items that exist stay as they are."), h.register)
	endpoint.Post(api, work("finish-event-ingest", "/stages/event-ingest/done", "Mark a file as complete",
		"Its shards become ready for shard-splitter."), h.finishIngest)
	endpoint.Post(api, work("move-item", "/stages/{stage}/{transition}", "Move an item at a stage",
		"start, done and fail are what the daemons report, and retry brings a failed item back to new. A move that "+
			"the status does not allow answers 409 "+
			"with current_status; one that was made before answers 200 and changes nothing. An item is started by "+
			"one caller: another start of it answers 409, "+
			"unless it names the same worker or, where none is named, has the same Idempotency-Key. Beyond these: "+
			"release gives a started item back without "+
			"counting the attempt, again gives it back with the attempt counted (it fails, and is dead, when none "+
			"is left), and extend moves the end of its lease."), h.move)
	endpoint.Post(api, work("move-items", "/stages/{stage}/{transition}/bulk", "Move up to 5,000 items at a stage",
		"Each item is judged by itself, and the answer says of each what became of it. They move in one "+
			"transaction; start may have one for each few of them."), h.moveMany)
	queueapi.Take[StageRequest[queueapi.TakeItems]](h.queues(), api,
		work("take-items", "/queues/{stage}/take", "Take items that are ready for a stage",
			"They are started for the worker, and for nobody else, until it reports or the lease ends: then they are "+
				"new again, with the attempt counted."))
	h.registerAdmin(api)
}

// RegisterFile is the body of POST /files/register.
type RegisterFile struct {
	Filename string  `json:"filename" doc:"The prefix of the file's name before .event-ingest.txt, which is taken off where it is given; 1 to 255 bytes without slashes and control characters" example:"20250101000000"`
	Shards   []int64 `json:"shards" nullable:"false" doc:"Its shards: 1 to 4,096 numbers; a repeated one counts once" example:"[0,1]"`
	Priority int16   `json:"priority,omitempty" minimum:"0" maximum:"9" doc:"Of a file that is new: items of higher ones are taken first"`
}

// Check implements endpoint.Checked.
func (b *RegisterFile) Check() []error {
	_, err := b.parse()
	return endpoint.Faults(err)
}

func (b *RegisterFile) parse() (tracking.Registration, error) {
	name, err := shard.Filename(b.Filename)
	shards, wrong := shard.Shards(b.Shards)
	return tracking.Registration{Filename: name, Shards: shards, Priority: b.Priority}, errors.Join(err, wrong)
}

// Registered is the answer.
type Registered struct {
	Filename string  `json:"filename" example:"20250101000000"`
	Shards   []int32 `json:"shards" doc:"Each once" example:"[0,1]"`
	Created  bool    `json:"created" doc:"Whether any item was made"`
}

func (h *Handler) register(ctx context.Context, in *endpoint.Body[RegisterFile]) (Registered, error) {
	file, _ := in.Body.parse() // which Check has found right
	made, err := h.store.Register(ctx, []tracking.Registration{file})
	if err != nil {
		return Registered{}, err
	}
	return Registered{file.Filename, file.Shards, made[0] > 0}, nil
}

// FinishIngest is the body of POST /stages/event-ingest/done.
type FinishIngest struct {
	Filename string   `json:"filename" example:"20250101000000"`
	DelayS   *float64 `json:"delay_s,omitempty" doc:"Seconds until its shards stand in the queue of shard-splitter; default 0"`
}

// Check implements endpoint.Checked.
func (b *FinishIngest) Check() []error {
	_, _, err := b.parse()
	return endpoint.Faults(err)
}

func (b *FinishIngest) parse() (file string, delay time.Duration, err error) {
	file, err = shard.Filename(b.Filename)
	delay, wrong := seconds(b.DelayS, item.CheckDelay)
	return file, delay, errors.Join(err, wrong)
}

// Finished is the answer.
type Finished struct {
	Filename    string `json:"filename" example:"20250101000000"`
	UpdatedRows int    `json:"updated_rows" doc:"Items that were not done yet" example:"2"`
}

func (h *Handler) finishIngest(ctx context.Context, in *endpoint.Body[FinishIngest]) (Finished, error) {
	file, delay, _ := in.Body.parse() // which Check has found right
	n, err := h.store.FinishIngest(ctx, file, queue.Command{Delay: delay})
	return Finished{file, n}, err
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
