package console

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/millrace-io/millrace/schemas/shard"
)

// QueuesCmd are the commands on queues.
type QueuesCmd struct {
	List   QueuesListCmd   `cmd:"" default:"withargs" help:"List the queues, those of shards and your own, and what stands in them."`
	Pause  QueuesPauseCmd  `cmd:"" help:"Hand out no items of a queue. What is started goes on."`
	Resume QueuesResumeCmd `cmd:"" help:"Hand out items of a queue again."`
	Limits QueuesLimitsCmd `cmd:"" help:"Show the limits of a queue, or change those that are given."`
	Retry  QueuesRetryCmd  `cmd:"" name:"retry-failed" help:"Bring failed items of a queue back, the oldest first."`
	Cancel QueuesCancelCmd `cmd:"" help:"Cancel the items of a group that have not ended."`
}

// QueuesListCmd lists queues.
type QueuesListCmd struct {
	Server `embed:"" group:"Server"`
	JSON   bool `help:"Print a line of JSON for each queue."`
}

// Run lists queues.
func (c *QueuesListCmd) Run(con *Console) error {
	queues, err := c.allQueues(con.Ctx)
	if err != nil {
		return err
	}
	if !c.JSON {
		return queueTable(queues, time.Now()).write(con.Out, "")
	}
	e := json.NewEncoder(con.Out)
	for _, q := range queues {
		if err := e.Encode(q); err != nil {
			return err
		}
	}
	return nil
}

// queueName is a user-defined queue, or a stage of shards.
type queueName string

// stage tells which stage of shards a queue is of, if it is.
func (q queueName) stage() (shard.Stage, bool) {
	stage, err := shard.CheckQueue(string(q))
	return stage, err == nil
}

// path is where the queue is in the API.
func (q queueName) path() string {
	if _, ok := q.stage(); ok {
		return "/pipeline/queues/" + string(q)
	}
	return "/queues/" + url.PathEscape(string(q))
}

// aQueue is what commands on one queue have.
type aQueue struct {
	Queue  queueName `arg:"" help:"Name of the queue: your own, or shard-splitter, shard-worker or mysql-sender."`
	Server `embed:"" group:"Server"`
	JSON   bool `help:"Print JSON."`
}

// QueuesPauseCmd pauses a queue.
type QueuesPauseCmd struct{ aQueue }

// Run pauses a queue.
func (c *QueuesPauseCmd) Run(con *Console) error {
	return c.command(con, "/pause", struct{}{}, "is paused: what is started goes on")
}

// QueuesResumeCmd resumes a queue.
type QueuesResumeCmd struct{ aQueue }

// Run resumes a queue.
func (c *QueuesResumeCmd) Run(con *Console) error {
	return c.command(con, "/resume", struct{}{}, "is handed out again")
}

// command sends a command and says what the queue does from now on.
func (c *aQueue) command(con *Console, path string, body any, now string) error {
	return answer(con, c.JSON, func(ctx context.Context, out any) error {
		return c.post(ctx, c.Queue.path()+path, body, out)
	}, func(_ struct{}, w io.Writer) error {
		_, err := fmt.Fprintf(w, "%s %s\n", Plain(string(c.Queue)), now)
		return err
	})
}

// rate is a number of starts in a time.
type rate struct {
	Count int     `json:"count"`
	PerS  float64 `json:"per_s"`
}

// Rate is one that is given as a flag.
type Rate struct{ rate }

// UnmarshalText implements encoding.TextUnmarshaler.
func (r *Rate) UnmarshalText(text []byte) error {
	count, per, _ := strings.Cut(string(text), "/")
	n, err := strconv.Atoi(count)
	d, wrong := time.ParseDuration(per)
	if string(text) == "0" {
		wrong = nil
	}
	if err != nil || wrong != nil {
		return errors.New(`must be a number of starts in a time, such as "5/1m", or 0 for any number`)
	}
	r.Count, r.PerS = n, d.Seconds()
	return nil
}

// QueuesLimitsCmd shows or changes limits.
type QueuesLimitsCmd struct {
	aQueue
	MaxAttempts *int           `help:"Attempts after which an item is dead; 0: any number."`
	Concurrency *int           `help:"Items started at a time by all workers together; 0: any number."`
	PerGroup    *int           `help:"The same for the items of one group; not of shards." name:"concurrency-per-group"`
	RatePerKey  *Rate          `help:"Starts of items with the same key in a time; 0: any number; not of shards." placeholder:"5/1m"`
	Retention   *time.Duration `help:"How long items that have ended are kept; not of shards." placeholder:"168h"`
	MaxItems    *int           `help:"Live items, and ended ones that are kept; not of shards."`
}

// limits are those of a queue; nil: it has none such, or it stays as it is.
type limits struct {
	MaxAttempts *int     `json:"max_attempts,omitempty"`
	Concurrency *int     `json:"concurrency,omitempty"`
	PerGroup    *int     `json:"concurrency_per_group,omitempty"`
	RatePerKey  *rate    `json:"rate_per_key,omitempty"`
	RetentionS  *float64 `json:"retention_s,omitempty"`
	MaxItems    *int     `json:"max_items,omitempty"`
}

func (c *QueuesLimitsCmd) given() limits {
	l := limits{c.MaxAttempts, c.Concurrency, c.PerGroup, nil, nil, c.MaxItems}
	if c.RatePerKey != nil {
		l.RatePerKey = &c.RatePerKey.rate
	}
	if c.Retention != nil {
		s := c.Retention.Seconds()
		l.RetentionS = &s
	}
	return l
}

// Validate makes limits that stages of shards do not have bad usage.
func (c *QueuesLimitsCmd) Validate() error {
	l := c.given()
	l.MaxAttempts, l.Concurrency = nil, nil
	if _, shards := c.Queue.stage(); shards && l != (limits{}) {
		return errors.New("a queue of shards has the limits --max-attempts and --concurrency alone")
	}
	return nil
}

// Run shows the limits, after it has changed those that are given.
func (c *QueuesLimitsCmd) Run(con *Console) error {
	return answer(con, c.JSON, func(ctx context.Context, out any) error {
		if l := c.given(); l != (limits{}) {
			return c.post(ctx, c.Queue.path()+"/limits", l, out)
		}
		stage, shards := c.Queue.stage()
		if !shards {
			return c.get(ctx, c.Queue.path(), nil, out)
		}
		var summary struct {
			Queues map[string]json.RawMessage `json:"queues"`
		}
		if err := c.get(ctx, "/pipeline/metrics/summary", nil, &summary); err != nil {
			return err
		}
		return json.Unmarshal(summary.Queues[stage.Column()], out)
	}, limits.write)
}

func (l limits) write(w io.Writer) error {
	t := newTable("LIMIT", "")
	number := func(name string, n *int, none string) {
		switch {
		case n == nil:
		case *n == 0 && none != "":
			t.add(name, none)
		default:
			t.add(name, strconv.Itoa(*n))
		}
	}
	number("max attempts", l.MaxAttempts, "any number")
	number("concurrency", l.Concurrency, "any number")
	number("concurrency per group", l.PerGroup, "any number")
	if l.RatePerKey != nil && l.RatePerKey.Count > 0 {
		t.add("rate per key", fmt.Sprintf("%d in %s", l.RatePerKey.Count, seconds(l.RatePerKey.PerS)))
	}
	if l.RetentionS != nil {
		t.add("retention", seconds(*l.RetentionS).String())
	}
	number("max items", l.MaxItems, "")
	t.rows = t.rows[1:]
	return t.write(w, "")
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
