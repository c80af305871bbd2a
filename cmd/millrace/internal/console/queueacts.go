package console

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
)

// bulk is what commands on many items of a queue have.
type bulk struct {
	aQueue
	Group string `help:"Only items of this group; not of shards." placeholder:"shop"`
	Limit int    `help:"How many items at most, up to 10000." default:"10000"`
	Yes   bool   `help:"Do not ask first."`
}

func (b *bulk) check() error {
	_, shards := b.Queue.stage()
	switch {
	case b.Limit < 1 || b.Limit > 10_000:
		return errors.New("--limit: must be from 1 to 10000")
	case shards && b.Group != "":
		return errors.New("--group: items of shards have none")
	}
	return nil
}

// moved is how many items a command has moved.
type moved struct {
	Count   int `json:"count"`
	Retried int `json:"retried"` // of a queue of shards
}

// QueuesRetryCmd retries failed items.
type QueuesRetryCmd struct {
	bulk
	State string `help:"What to bring back: failed, dead (of shards, failed ones as well) or cancelled items." enum:"failed,dead,cancelled" default:"failed"`
}

// Validate makes what a queue cannot do bad usage.
func (c *QueuesRetryCmd) Validate() error {
	if _, shards := c.Queue.stage(); shards && c.State == "cancelled" {
		return errors.New("--state: cancelled items of shards do not come back")
	}
	return c.check()
}

// Run retries items.
func (c *QueuesRetryCmd) Run(con *Console) error {
	n, err := c.count(con.Ctx)
	if err != nil {
		return err
	}
	if n == 0 {
		return con.nothing("%s has no %s items (--state names others)", c.Queue, c.State)
	}
	kind := c.State
	path, body := c.Queue.path()+"/retry-failed", map[string]any{"limit": c.Limit, "state": c.State, "group": c.Group}
	if stage, shards := c.Queue.stage(); shards {
		path = "/pipeline/stages/" + stage.String() + "/retry-failed"
		body = map[string]any{"limit": c.Limit, "include_dead": c.State == "dead"}
		if c.State == "dead" {
			kind = "failed or dead"
		}
	}
	what := many(min(n, c.Limit), kind+" item", kind+" items") + " of " + Plain(string(c.Queue))
	return c.act(con, "retry "+what, path, body, "retried")
}

// count is how many items there are to retry.
func (c *QueuesRetryCmd) count(ctx context.Context) (int, error) {
	stage, shards := c.Queue.stage()
	if !shards {
		return c.countGroup(ctx, c.State)
	}
	var summary struct {
		Stages map[string]struct {
			Failed int `json:"failed"`
		} `json:"by_stage"`
		Queues map[string]struct {
			Dead int `json:"dead"`
		} `json:"queues"`
	}
	err := c.get(ctx, "/pipeline/metrics/summary", nil, &summary)
	n := summary.Stages[stage.Column()].Failed
	if c.State == "failed" {
		n -= summary.Queues[stage.Column()].Dead
	}
	return n, err
}

// countGroup counts items of the group, or all, in some states, up to the limit.
func (b *bulk) countGroup(ctx context.Context, states ...string) (n int, err error) {
	if b.Group == "" {
		var queue struct {
			States map[string]int `json:"states"`
		}
		err := b.get(ctx, b.Queue.path(), nil, &queue)
		for _, state := range states {
			n += queue.States[state]
		}
		return n, err
	}
	for _, state := range states {
		query := url.Values{"state": {state}, "group": {b.Group}}
		count := func(items []json.RawMessage) (bool, error) {
			n += len(items)
			return true, nil
		}
		_, err := b.list(ctx, b.Queue.path()+"/items", "items", query, b.Limit, count)
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

// act does something to items, if somebody wants it.
func (b *bulk) act(con *Console, what, path string, body any, done string) error {
	if err := con.confirm(b.Yes, what); err != nil {
		return err
	}
	return answer(con, b.JSON, func(ctx context.Context, out any) error { return b.post(ctx, path, body, out) },
		func(m moved, w io.Writer) error {
			n := m.Count + m.Retried
			text := many(n, "item was", "items were") + " " + done
			if n == b.Limit {
				text += "; there may be more (--limit)"
			}
			_, err := fmt.Fprintln(w, text)
			return err
		})
}

// QueuesCancelCmd cancels the items of a group.
type QueuesCancelCmd struct{ bulk }

// Validate makes what a queue cannot do bad usage.
func (c *QueuesCancelCmd) Validate() error {
	if _, shards := c.Queue.stage(); shards {
		return errors.New("<queue>: shards are cancelled by file: millrace files cancel <file>")
	}
	if c.Group == "" {
		return errors.New("--group: is required")
	}
	return c.check()
}

// Run cancels items.
func (c *QueuesCancelCmd) Run(con *Console) error {
	n, err := c.countGroup(con.Ctx, "new", "scheduled", "started")
	if err != nil {
		return err
	}
	if n == 0 {
		return con.nothing("%s has no items of the group %s that have not ended", c.Queue, c.Group)
	}
	items := many(min(n, c.Limit), "item", "items")
	what := fmt.Sprintf("cancel %s of the group %s in %s", items, Plain(c.Group), Plain(string(c.Queue)))
	body := map[string]any{"group": c.Group, "limit": c.Limit}
	return c.act(con, what, c.Queue.path()+"/cancel", body, "cancelled")
}
