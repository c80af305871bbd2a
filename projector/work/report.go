package work

import (
	"fmt"

	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/projector/fold"
	"github.com/millrace-io/millrace/schemas/item"
	"github.com/millrace-io/millrace/schemas/shard"
	"github.com/millrace-io/millrace/schemas/stream"
)

// report is one message of the stream SHARDS, ready to be applied.
type report struct {
	fold.Message
	stage   shard.Stage
	move    item.Move
	shards  []int32 // with Register
	command queue.Command
	invalid error // it breaks a rule by itself
}

// parseReport reads a message. If it breaks a rule, the report has that as invalid.
func parseReport(m fold.Message) report {
	r := report{Message: m}
	r.invalid = r.parse(m.Subject, m.Data)
	return r
}

func (r *report) parse(subject string, data []byte) error {
	said, err := stream.ParseShardReport(subject, data)
	if err != nil {
		return &item.Invalid{Code: "json", Rule: err.Error()}
	}
	r.command = queue.Command{Worker: said.Worker, Error: item.CutError(said.Error)}
	if r.command.Name, err = shard.Filename(said.Filename); err != nil {
		return err
	}
	if err := queue.CheckWorker(said.Worker); err != nil {
		return err
	}
	var known bool
	if r.stage, r.move, known = stageMove(said.Stage, said.Move); !known {
		return &item.Invalid{
			Field: "subject", Code: "unknown",
			Rule: "must be shards.register, shards.event-ingest.done, or shards.<stage>.<start, done, fail or retry>",
		}
	}
	if r.move == item.Register {
		r.shards, err = shard.Shards(said.Shards)
		return err
	}
	if r.stage == shard.EventIngest {
		return nil
	}
	if said.Shard == nil {
		return &item.Invalid{Field: "shard", Code: "missing", Rule: "is required"}
	}
	r.command.Part = int32(*said.Shard)
	return shard.CheckShard(*said.Shard)
}

func stageMove(stage, move string) (shard.Stage, item.Move, bool) {
	if stage == "" {
		return shard.EventIngest, item.Register, move == item.Register.String()
	}
	s, known := shard.ParseStage(stage)
	if !known {
		return 0, 0, false
	}
	for _, m := range []item.Move{item.Start, item.Complete, item.Fail, item.Retry} {
		if m.String() == move {
			return s, m, s.HasQueue() || m == item.Complete
		}
	}
	return 0, 0, false
}

// run is the number of reports at the start of a list that are one kind of
// move and about different items. A start goes alone: the queue has to let go
// of its item first.
func run(list []report) int {
	if list[0].move == item.Start {
		return 1
	}
	seen := map[string]bool{}
	for i, r := range list {
		key := fmt.Sprint(r.command.Part, "/", r.command.Name)
		same := r.stage == list[0].stage && r.move == list[0].move && r.invalid == nil
		if i > 0 && (!same || seen[key] || !r.single() || list[0].invalid != nil) {
			return i
		}
		if r.single() {
			seen[key] = true
		}
	}
	return len(list)
}

// single tells whether a report is about one item.
func (r *report) single() bool { return r.stage.HasQueue() && r.move != item.Register }

// refusal is the error of a run in which a report is refused; nothing of it
// was applied.
type refusal struct {
	at  int
	why error
}

func (r *refusal) Error() string { return r.why.Error() }

func refusedBy(result queue.Result, r report) error {
	if result.Outcome == item.NotFound {
		return &item.Invalid{Field: "filename", Code: "not_found", Rule: "is no registered file with this shard"}
	}
	return &item.Invalid{
		Field: "status", Code: result.Outcome.String(),
		Rule: fmt.Sprintf("is %s at %s: %s is not allowed", result.Status, r.stage, r.move),
	}
}
