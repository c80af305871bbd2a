package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"
)

// editor looks after sources of his own, one thing after the other.
type editor struct {
	*crawls
	random *rand.Rand
	name   int
	made   int
	mine   []*crawlSource
}

func (e *editor) run(ctx context.Context) {
	for range sourcesEach {
		e.make(ctx)
		wait(ctx, betweenMaking)
	}
	for ctx.Err() == nil && len(e.mine) > 0 {
		if busy := e.turn(ctx); !busy {
			wait(ctx, betweenEdits/2+time.Duration(e.random.Int64N(int64(betweenEdits))))
		}
	}
}

// make makes a source whose job runs at once.
func (e *editor) make(ctx context.Context) {
	e.made++
	name := fmt.Sprintf("source %d-%d", e.name, e.made)
	var made struct{ ID string }
	r := e.ask(ctx, "make", http.MethodPost, "/sources", map[string]any{
		"name": name, "url": fmt.Sprintf("%s%d/%d", sourcesBegin, e.name, e.made), "priority": "critical",
	}, &made)
	if r.status != http.StatusCreated {
		return
	}
	c := &crawlSource{
		id: made.ID, most: 1 + e.random.IntN(2),
		overlap: pick(e.random, "skip", "buffer_one", "cancel_other", "allow"),
	}
	e.mine = append(e.mine, c)
	e.mu.Lock()
	e.known[c.id] = c
	e.mu.Unlock()
}

func pick[T any](random *rand.Rand, choices ...T) T { return choices[random.IntN(len(choices))] }

// ask insists on an answer, which may be that it does not apply.
func (e *editor) ask(ctx context.Context, what, method, path string, body, into any) reply {
	r := e.demand(ctx, method, path, body, into)
	switch r.status {
	case 0:
	case http.StatusOK, http.StatusCreated, http.StatusNoContent, http.StatusConflict:
		e.acted(what)
	case http.StatusNotFound:
		if r.sure && what != "delete" && !e.moved(e.river...) {
			e.notes.fail("%s %s: not found", method, path)
		}
	default:
		e.notes.fail("%s %s %v: status %d", method, path, body, r.status)
	}
	return r
}

// turn does something with a source. busy tells that there is more to do at once.
func (e *editor) turn(ctx context.Context) (busy bool) {
	i := e.random.IntN(len(e.mine))
	c := e.mine[i]
	switch {
	case c.job == "":
		return e.find(ctx, c)
	case !c.set:
		e.override(ctx, c, e.whole(c))
		return true
	}
	switch whim := e.random.IntN(100); {
	case whim < 30:
		e.ask(ctx, "force-run", http.MethodPost, "/jobs/"+c.job+"/force-run", nil, nil)
	case whim < 38:
		e.ask(ctx, "pause", http.MethodPost, "/jobs/"+c.job+"/pause", nil, nil)
	case whim < 50:
		e.ask(ctx, "resume", http.MethodPost, "/jobs/"+c.job+"/resume", nil, nil)
	case whim < 58:
		e.ask(ctx, "disable", http.MethodPost, "/sources/"+c.id+"/disable", nil, nil)
	case whim < 72:
		e.ask(ctx, "enable", http.MethodPost, "/sources/"+c.id+"/enable", nil, nil)
	case whim < 82:
		e.override(ctx, c, e.part())
	case whim < 86:
		e.ask(ctx, "skip-next", http.MethodPost, "/jobs/"+c.job+"/skip-next", nil, nil)
	case whim < 91:
		e.ask(ctx, "change", http.MethodPut, "/sources/"+c.id, e.change(), nil)
	case whim < 95:
		e.many(ctx)
	default:
		e.replace(ctx, i)
	}
	return false
}

// find looks for the job of a source.
func (e *editor) find(ctx context.Context, c *crawlSource) (found bool) {
	var answer struct{ Job struct{ ID string } }
	err := e.get(ctx, "/jobs/by-source/"+c.id, &answer)
	if err != nil {
		wait(ctx, 50*time.Millisecond) // it is not made yet, or query is away
		return false
	}
	c.job = answer.Job.ID
	return true
}

// whole is how a job is to run.
func (e *editor) whole(c *crawlSource) map[string]any {
	o := e.part()
	o["max_concurrent"], o["overlap_policy"] = c.most, c.overlap
	o["catch_up_policy"] = pick(e.random, "none", "one", "recent", "all")
	o["catch_up_window_seconds"], o["catch_up_cap"] = pick(e.random, 600, 3600), 1+e.random.IntN(5)
	o["catch_up_spread_seconds"] = e.random.IntN(3)
	return o
}

// part is when a job is to run.
func (e *editor) part() map[string]any {
	o := map[string]any{"jitter_seconds": e.random.IntN(3)}
	switch e.random.IntN(4) {
	case 0:
		o["cron"], o["time_zone"] = "* * * * *", pick(e.random, "UTC", "Asia/Kolkata", "America/New_York")
	case 1:
		o["cron"], o["time_zone"] = "*/2 * * * *", pick(e.random, "UTC", "Asia/Kolkata")
	default:
		o["interval_minutes"] = 1 + e.random.IntN(2)
	}
	switch hour := time.Now().UTC().Hour(); e.random.IntN(6) {
	case 0: // closed now
		o["crawl_window"] = map[string]any{"start_hour": (hour + 2) % 24, "end_hour": (hour + 4) % 24}
	case 1:
	default:
		o["crawl_window"] = nil
	}
	return o
}

func (e *editor) override(ctx context.Context, c *crawlSource, body map[string]any) {
	if r := e.ask(ctx, "override", http.MethodPut, "/jobs/"+c.job+"/override", body, nil); r.status == http.StatusOK {
		c.set = true
	}
}

// change is what a source is to be.
func (e *editor) change() map[string]any {
	fields := map[string]any{"rate_limit": 1 + e.random.IntN(20), "max_depth": 1 + e.random.IntN(6)}
	if e.random.IntN(2) == 0 {
		fields["priority"] = pick(e.random, "critical", "high", "normal")
	}
	if e.random.IntN(5) == 0 {
		fields["enabled"] = e.random.IntN(2) == 0
	}
	return fields
}

// many does one thing with many jobs, or sources.
func (e *editor) many(ctx context.Context) {
	var jobs, sources []string
	for _, c := range e.mine {
		if c.job != "" && c.set && e.random.IntN(2) == 0 {
			jobs, sources = append(jobs, c.job), append(sources, c.id)
		}
	}
	if len(jobs) == 0 {
		return
	}
	if e.random.IntN(3) == 0 {
		e.ask(ctx, "many sources", http.MethodPost, "/sources/bulk", map[string]any{
			"operation": pick(e.random, "disable", "enable", "enable"), "ids": sources,
		}, nil)
		return
	}
	e.ask(ctx, "many jobs", http.MethodPost, "/jobs/bulk", map[string]any{
		"operation": pick(e.random, "pause", "resume", "resume", "force-run", "skip-next"), "ids": jobs,
	}, nil)
}

// replace deletes a source and makes another.
func (e *editor) replace(ctx context.Context, i int) {
	c := e.mine[i]
	e.mu.Lock()
	c.gone = true // or may be, if there is no time for an answer
	e.mu.Unlock()
	if r := e.ask(ctx, "delete", http.MethodDelete, "/sources/"+c.id, nil, nil); r.status != 0 {
		e.mine = append(e.mine[:i:i], e.mine[i+1:]...)
		e.make(ctx)
	}
}
