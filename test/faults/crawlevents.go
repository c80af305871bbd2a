package main

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/schemas/stream"
)

// sourceEvent is an event about a source.
type sourceEvent struct {
	ID      string `json:"event_id"`
	Type    string `json:"event_type"`
	Source  string `json:"source_id"`
	Payload map[string]any
}

// readEvents reads what happened to sources, in the order of the stream.
func (s *crawls) readEvents(ctx context.Context) (all []sourceEvent, err error) {
	var broken error
	err = each(ctx, s.js, stream.Sources, func(_ uint64, _ time.Time, m jetstream.Msg) {
		var e sourceEvent
		if err := json.Unmarshal(m.Data(), &e); err != nil {
			broken = fmt.Errorf("an event about a source: %w: %s", err, m.Data())
		}
		all = append(all, e)
	})
	if err == nil {
		err = broken
	}
	return all, err
}

// sourceFields are those that events tell of.
var sourceFields = []string{"name", "url", "rate_limit", "max_depth", "enabled", "selectors", "priority"}

// compareEvents plays the events back, from which the sources follow as they are in
// the table: one that is lost, doubled or out of order does not fit those around it.
func (v *crawlVerdict) compareEvents(events []sourceEvent, table map[string]map[string]any) {
	told, seen, gone := map[string]map[string]any{}, map[string]bool{}, map[string]bool{}
	v.sources, v.events = len(table), len(events)
	for _, e := range events {
		if seen[e.ID] {
			v.wrong("the event %s is on the stream twice: %+v", e.ID, e)
			continue
		}
		seen[e.ID] = true
		now, there := told[e.Source]
		if there == (e.Type == "SOURCE_CREATED") || gone[e.Source] {
			v.wrong("%s comes when the source %s is %v", e.Type, e.Source, now)
			continue
		}
		switch e.Type {
		case "SOURCE_CREATED":
			told[e.Source] = e.Payload
		case "SOURCE_DELETED":
			delete(told, e.Source)
			gone[e.Source] = true
		case "SOURCE_ENABLED", "SOURCE_DISABLED":
			to := e.Type == "SOURCE_ENABLED"
			if now["enabled"] == to {
				v.wrong("%s comes when the source %s is so already", e.Type, e.Source)
			}
			now["enabled"] = to
		case "SOURCE_UPDATED":
			v.update(e, now)
		default:
			v.wrong("there is no event %s", e.Type)
		}
	}
	v.compareTable(told, table)
}

func (v *crawlVerdict) update(e sourceEvent, now map[string]any) {
	before, _ := e.Payload["previous"].(map[string]any)
	after, _ := e.Payload["current"].(map[string]any)
	for name, value := range after {
		if !reflect.DeepEqual(now[name], before[name]) {
			v.wrong("the source %s has the %s %v before an update from %v", e.Source, name, now[name], before[name])
		}
		now[name] = value
	}
}

func (v *crawlVerdict) compareTable(told, table map[string]map[string]any) {
	for id, row := range table {
		for _, name := range sourceFields {
			if !reflect.DeepEqual(told[id][name], row[name]) {
				v.wrong("by its events the source %s has the %s %v, and by the table %v", id, name, told[id][name],
					row[name])
			}
		}
		delete(told, id)
	}
	for id := range told {
		v.wrong("by its events there is a source %s, and by the table none", id)
	}
}

// compareJobs holds jobs to their sources. excused says that an event may have been
// taken for the repeat of one that is a week old, after which a job can be orphaned in
// place of deleted.
func (v *crawlVerdict) compareJobs(r *crawlRecord, excused bool) {
	ofSource := map[string]*jobRow{}
	for id, j := range r.jobs {
		if ofSource[j.source] != nil {
			v.wrong("the source %s has several jobs", j.source)
		}
		ofSource[j.source] = j
		row := r.sources[j.source]
		if row == nil {
			if !excused || j.status != "orphaned" {
				v.wrong("the source of the job %s does not exist: it is %s", id, j.status)
			}
			continue
		}
		for name, value := range j.fields {
			if !reflect.DeepEqual(value, row[name]) {
				v.wrong("the job %s has the %s %v, and its source %v", id, name, value, row[name])
			}
		}
		if off := row["enabled"] == false; off != (j.pausedBy == "source") || j.status == "orphaned" {
			v.wrong("the source of the job %s is enabled: %t; the job is %s by %s", id, !off, j.status, j.pausedBy)
		}
	}
	for id, row := range r.sources {
		if row["enabled"] == true && ofSource[id] == nil {
			v.wrong("the source %s is enabled, and has no job", id)
		}
	}
}
