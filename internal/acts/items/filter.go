package items

import (
	"context"
	"slices"
	"strings"

	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/internal/tracking"
	"github.com/millrace-io/millrace/internal/userqueue"
	"github.com/millrace-io/millrace/schemas/item"
	"github.com/millrace-io/millrace/schemas/shard"
)

// ItemFilter selects items. An item passes every part that is given.
type ItemFilter struct {
	Queue       string `json:"queue,omitempty" query:"queue" maxLength:"63" doc:"A user-defined queue, or a stage of shards; may be left out where filename or search is given: every stage" example:"mail"`
	State       string `json:"state,omitempty" query:"state" doc:"To retry: failed, dead or, in a user-defined queue, cancelled; by default failed and dead. To cancel: new, scheduled or started; by default all three"`
	Group       string `json:"group,omitempty" query:"group" maxLength:"255" doc:"Of a user-defined queue"`
	Key         string `json:"key,omitempty" query:"key" maxLength:"255" doc:"Of a user-defined queue"`
	Filename    string `json:"filename,omitempty" query:"filename" maxLength:"255" doc:"Only shards of this file"`
	Search      string `json:"search,omitempty" query:"search" maxLength:"255" doc:"Only shards of files whose names contain this"`
	Fingerprint string `json:"fingerprint,omitempty" query:"fingerprint" maxLength:"4096" doc:"Only items whose last error has this fingerprint, as /failures has it"`
}

// Asked is what a request has that begins an act on items.
type Asked struct {
	Move   string     `json:"move" enum:"retry,cancel" doc:"retry: failed items are new again. cancel: items that have not ended end"`
	Filter ItemFilter `json:"filter"`
}

var states = map[string][]string{
	Retry:  {"failed", "dead", "cancelled"},
	Cancel: {"new", "scheduled", "started"},
}

// selection is a checked filter.
type selection struct {
	own         *userqueue.Page
	stages      []tracking.Selection
	fingerprint string
}

// Check returns all rules that a filter breaks for a move, as far as the filter itself
// tells.
func (f ItemFilter) Check(move string) (all []item.Invalid) {
	add := func(field, code, rule string) {
		all = append(all, item.Invalid{Field: field, Code: code, Rule: rule})
	}
	own := f.own()
	allowed := states[move]
	if !own && allowed != nil {
		allowed = []string{"failed", "dead"}
	}
	switch {
	case allowed == nil:
		add("move", "move_unknown", "must be retry or cancel")
	case move == Cancel && !own && f.Queue+f.Filename+f.Search != "":
		add("move", "move", "must be retry: shards are cancelled with their file, by /pipeline/files/{filename}/cancel")
	case f.State != "" && !slices.Contains(allowed, f.State):
		add("state", "state_unknown", "must be one of "+strings.Join(allowed, ", "))
	}
	switch {
	case f.Queue == "" && f.Filename == "" && f.Search == "":
		add("queue", "missing", "is required where neither filename nor search is given")
	case own && f.Filename+f.Search != "":
		add("queue", "queue", "must be a stage of shards, or absent, where filename or search is given")
	case !own && f.Group+f.Key != "":
		add("queue", "queue", "must be a user-defined queue where group or key is given")
	}
	for _, text := range []struct{ field, value string }{{"group", f.Group}, {"key", f.Key}, {"search", f.Search}} {
		if rule := userqueue.CheckText(text.field, text.value); rule != nil {
			all = append(all, *rule)
		}
	}
	return all
}

// own tells whether a filter is about a user-defined queue.
func (f ItemFilter) own() bool {
	_, err := shard.CheckQueue(f.Queue)
	return f.Queue != "" && err != nil
}

// selection checks a filter and finds its queues. The error is an *item.Invalid,
// queue.ErrNoQueue, tracking.ErrNoFile, or one of Postgres.
func (s *Subject) selection(ctx context.Context, move string, f ItemFilter) (selection, error) {
	sel := selection{fingerprint: f.Fingerprint}
	if broken := f.Check(move); len(broken) > 0 {
		return sel, &broken[0]
	}
	if f.own() {
		v, err := s.own.Get(ctx, f.Queue)
		if err != nil {
			return sel, err
		}
		sel.own = &userqueue.Page{Queue: v.ID, State: f.State, Group: f.Group, Key: f.Key}
		if f.State == "" {
			sel.own.State = map[string]string{Retry: userqueue.Unwell, Cancel: userqueue.Live}[move]
		}
		return sel, nil
	}
	of := tracking.Selection{Filename: f.Filename, Search: f.Search}
	if f.State != "" {
		dead := f.State == "dead"
		of.Dead = &dead
	}
	if f.Filename != "" {
		var err error
		if of.Filename, err = shard.Filename(f.Filename); err != nil {
			return sel, err
		}
		if _, err := s.shards.CancelledAt(ctx, of.Filename); err != nil {
			return sel, err
		}
	}
	stages := shard.Queues[:]
	if f.Queue != "" {
		stage, err := shard.CheckQueue(f.Queue)
		if err != nil {
			return sel, err
		}
		stages = []shard.Stage{stage}
	}
	for _, of.Stage = range stages {
		sel.stages = append(sel.stages, of)
	}
	return sel, nil
}

// each calls do with every item that passes, and the fingerprint of its error, until
// do returns an error. It looks at so many items of a queue at most; 0: at all.
func (s *Subject) each(ctx context.Context, sel selection, limit int, do func(m queue.Member, print string) error) error {
	prints := map[string]string{} // of errors, since many are the same
	of := func(text string) string {
		print, known := prints[text]
		if !known {
			print = item.Fingerprint(text)
			if len(prints) < 10_000 {
				prints[text] = print
			}
		}
		return print
	}
	passed := func(m queue.Member) error {
		print := of(m.Error)
		if sel.fingerprint != "" && print != sel.fingerprint {
			return nil
		}
		return do(m, print)
	}
	if sel.own != nil {
		page := *sel.own
		page.Limit = limit
		return s.own.Each(ctx, page, passed)
	}
	for _, of := range sel.stages {
		of.Limit = limit
		if err := s.shards.Each(ctx, of, passed); err != nil {
			return err
		}
	}
	return nil
}
