package shards

import (
	"context"
	"net/http"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"github.com/millrace-io/millrace/internal/httpapi"
	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/internal/tracking"
	"github.com/millrace-io/millrace/query/live"
	"github.com/millrace-io/millrace/schemas/item"
	"github.com/millrace-io/millrace/schemas/shard"
)

// feed begins a feed of transitions, of a stage or a file where one is named.
func (h *Handler) feed(r *http.Request) (live.Follow, error) {
	file := r.URL.Query().Get("filename")
	if err := printable("filename", file); err != nil {
		return nil, err
	}
	stage, err := parseStage(r.URL.Query().Get("stage"))
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, after queue.Place) ([]live.Transition, error) {
		all, err := h.store.Follow(ctx, after, live.TransitionPage)
		events := make([]live.Transition, len(all))
		for i, t := range all {
			events[i].Place = t.Place
			if (file == "" || t.Filename == file) && (stage == nil || t.Stage() == *stage) {
				events[i].Data = transitionOf(t)
			}
		}
		return events, err
	}, nil
}

func parseStage(name string) (*shard.Stage, error) {
	if name == "" {
		return nil, nil
	}
	stage, ok := shard.ParseStage(name)
	if !ok {
		return nil, &item.Invalid{
			Field: "stage", Code: "stage_unknown",
			Rule: "must be event-ingest, shard-splitter, shard-worker or mysql-sender",
		}
	}
	return &stage, nil
}

func parseShard(text string) (*int32, error) {
	if text == "" {
		return nil, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		n = -1
	}
	if err := shard.CheckShard(n); err != nil {
		return nil, err
	}
	v := int32(n)
	return &v, nil
}

func describeFeed(srv *httpapi.Server) *huma.Operation {
	param := func(name, doc string) *huma.Param {
		return &huma.Param{Name: name, In: "query", Description: doc, Schema: &huma.Schema{Type: huma.TypeString}}
	}
	return live.DescribeTransitions(srv, huma.Operation{
		OperationID: "follow-transitions", Path: tracking.Path + "/transitions", Tags: []string{"Shards"},
		Summary: "Transitions as they happen", Description: "As in GET /files/{filename}/history. ",
		Parameters: []*huma.Param{param("stage", "Only at this stage"), param("filename", "Only of this file")},
	}, Transition{})
}
