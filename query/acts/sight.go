package acts

import (
	"context"
	"encoding/json"

	"github.com/millrace-io/millrace/internal/acts"
	"github.com/millrace-io/millrace/internal/acts/items"
	"github.com/millrace-io/millrace/internal/recrawl"
	"github.com/millrace-io/millrace/internal/userqueue"
)

// sight is what the caller of a request may see of items: admins all, and others no private ones but their own.
type sight struct {
	owners userqueue.Owners
	queues map[string]userqueue.Visible // what was asked for
}

func (h *Handler) sight() *sight { return &sight{h.owners, map[string]userqueue.Visible{}} }

// shows tells whether items of a group of a queue are shown.
func (s *sight) shows(ctx context.Context, queue, group string) (bool, error) {
	if group == "" {
		return true, nil
	}
	visible, asked := s.queues[queue]
	if !asked {
		var err error
		if visible, err = userqueue.VisibleTo(ctx, s.owners, queue); err != nil {
			return false, err
		}
		s.queues[queue] = visible
	}
	return visible.Shows(group), nil
}

// record returns a record as the caller is shown it: without a filter that names a private group of others, such as
// that of an upload.
func (s *sight) record(ctx context.Context, a acts.Act) (recrawl.Act, error) {
	if a.Subject != items.Name {
		return recrawl.ActOf(a), nil
	}
	var f items.ItemFilter
	if err := json.Unmarshal(a.Filter, &f); err != nil {
		return recrawl.Act{}, err
	}
	shown, err := s.shows(ctx, f.Queue, f.Group)
	if err != nil {
		return recrawl.Act{}, err
	}
	if !shown {
		a.Filter = json.RawMessage("{}")
	}
	return recrawl.ActOf(a), nil
}
