package console

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/millrace-io/millrace/internal/httpapi"
	"github.com/millrace-io/millrace/internal/processes"
)

func (c *collector) processes(ctx context.Context) error {
	var all processes.Answer
	err := c.get(ctx, "/processes", nil, &all)
	c.st.Processes = all.Processes
	return err
}

// complete takes from the answers of all processes what the server itself does not have.
func (c *collector) complete() {
	for _, p := range c.st.Processes {
		for _, a := range p.Alerts {
			if !slices.Contains(c.st.Alerts, a) {
				c.st.Alerts = append(c.st.Alerts, a)
			}
		}
		for _, damage := range p.Damage {
			if !slices.Contains(c.st.Problems, damage) {
				c.st.Problems = append(c.st.Problems, damage)
			}
		}
		for _, off := range p.Off {
			known := slices.ContainsFunc(c.st.Off, func(o httpapi.Off) bool {
				return o.System == off.System && o.Part == off.Part
			})
			if off.Part != "" && !known { // systems that are off as a whole are off at that process alone
				c.st.Off = append(c.st.Off, off)
			}
		}
	}
	for part, found := range map[string]bool{
		"lag":          c.st.Lag == nil && c.st.lagOfProcesses(),
		"queues":       c.st.Queues == nil && c.st.queuesOfProcesses(),
		"dead_letters": c.st.Letters == nil && c.st.lettersOfProcesses(),
	} {
		if found {
			delete(c.st.Missing, part)
		}
	}
}

// gauges calls each with the gauges of a name, of the process that has said the most about it.
func (st *Status) gauges(name string, each func(labels map[string]string, value float64)) {
	var most []processes.Gauge
	for _, p := range st.Processes {
		var some []processes.Gauge
		for _, g := range p.Gauges {
			if g.Name == name {
				some = append(some, g)
			}
		}
		if len(some) > len(most) {
			most = some
		}
	}
	for _, g := range most {
		each(g.Labels, g.Value)
	}
}

func (st *Status) lagOfProcesses() bool {
	groups := map[string]*GroupLag{}
	st.gauges("millrace_projector_behind", func(labels map[string]string, value float64) {
		id, err := strconv.ParseUint(labels["group"], 10, 32)
		if err == nil {
			groups[labels["group"]] = &GroupLag{Group: uint32(id), EventsBehind: uint64(value)}
		}
	})
	st.gauges("millrace_projector_behind_seconds", func(labels map[string]string, value float64) {
		if g := groups[labels["group"]]; g != nil {
			g.SecondsBehind = value
		}
	})
	if len(groups) == 0 {
		return false
	}
	st.Lag = &Lag{}
	for _, g := range groups {
		st.Lag.Groups = append(st.Lag.Groups, *g)
	}
	slices.SortFunc(st.Lag.Groups, func(a, b GroupLag) int { return cmp.Compare(a.Group, b.Group) })
	return true
}

func (st *Status) queuesOfProcesses() bool {
	queues := map[string]*Queue{}
	for name, set := range map[string]func(*Queue, float64){
		"millrace_queue_ready":   func(q *Queue, v float64) { q.Ready = int64(v) },
		"millrace_queue_delayed": func(q *Queue, v float64) { q.Delayed = int64(v) },
		"millrace_queue_running": func(q *Queue, v float64) { q.Running = int64(v) },
		"millrace_queue_dead":    func(q *Queue, v float64) { q.Dead, q.Failed = int64(v), int64(v) },
		"millrace_queue_paused":  func(q *Queue, v float64) { q.Paused = v > 0 },
		"millrace_queue_oldest_ready_age_seconds": func(q *Queue, v float64) {
			if v > 0 {
				since := st.At.Add(-time.Duration(v * float64(time.Second)))
				q.OldestSince = &since
			}
		},
	} {
		st.gauges(name, func(labels map[string]string, value float64) {
			q := queues[labels["queue"]]
			if q == nil {
				q = &Queue{Name: labels["queue"]}
				queues[q.Name] = q
			}
			set(q, value)
		})
	}
	for _, q := range queues {
		st.Queues = append(st.Queues, *q)
	}
	slices.SortFunc(st.Queues, func(a, b Queue) int { return cmp.Compare(a.Name, b.Name) })
	return len(queues) > 0
}

func (st *Status) lettersOfProcesses() (found bool) {
	l := &Letters{}
	st.gauges("millrace_dlq_messages", func(_ map[string]string, value float64) { l.Count, found = uint64(value), true })
	st.gauges("millrace_dlq_letters", func(labels map[string]string, value float64) {
		l.Reasons = append(l.Reasons, Reason{Code: labels["reason"], Letters: int(value)})
		l.Counted += int(value)
	})
	slices.SortFunc(l.Reasons, func(a, b Reason) int { return cmp.Or(b.Letters-a.Letters, cmp.Compare(a.Code, b.Code)) })
	if found {
		st.Letters = l
	}
	return found
}

// name names a process to people.
func name(p processes.Process) string { return strings.Join(p.Roles, ",") + " on " + p.Host }

// judgeProcesses tells of processes that are silent or not ready, and of alerts.
func (st *Status) judgeProcesses() {
	for _, p := range st.Processes {
		switch {
		case !p.Answers:
			st.Problems = append(st.Problems, fmt.Sprintf(
				"%s does not answer; it was there %s ago, and has not said that it stops",
				name(p), short(st.At.Sub(p.SeenAt))))
		case !p.Ready:
			st.Problems = append(st.Problems, name(p)+" is not ready")
		}
	}
	st.judgeAlerts()
}

// judgeAlerts tells of each gauge whose condition holds once, with the processes that say so, if there are several.
func (st *Status) judgeAlerts() {
	type told struct{ alert, gauge string }
	var order []told
	texts, by := map[told]string{}, map[told][]string{}
	for _, p := range st.Processes {
		for _, a := range p.Alerts {
			gauge, _, _ := strings.Cut(a.Detail, "} ")
			if gauge == a.Detail { // it has no labels
				gauge, _, _ = strings.Cut(a.Detail, " ")
			}
			t := told{a.Name, gauge}
			if texts[t] == "" {
				order, texts[t] = append(order, t), fmt.Sprintf("alert %s: %s", a.Name, a.Detail)
			}
			by[t] = append(by[t], name(p))
		}
	}
	for _, t := range order {
		text := texts[t]
		if len(st.Processes) > 1 {
			text += ", says " + strings.Join(by[t], ", ")
		}
		st.Attention = append(st.Attention, text)
	}
}

func (st Status) processTable() *table {
	t := newTable("ROLES", "HOST", "VERSION", "UP FOR", "")
	for _, p := range st.Processes {
		state := "ready"
		switch {
		case !p.Answers:
			state = "does not answer"
		case !p.Ready:
			state = "not ready"
		}
		t.add(strings.Join(p.Roles, ","), p.Host, p.Version, short(st.At.Sub(p.StartedAt)), state)
	}
	return t
}
