package console

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
)

// collecting bounds how long a server may take to say what it does.
const collecting = 10 * time.Second

// collect asks a server for everything at once. It fails without any answer, and
// where the server does not know the caller.
func collect(ctx context.Context, s Server) (Status, error) {
	asking, cancel := context.WithTimeout(ctx, collecting)
	defer cancel()
	health, err := s.health(asking)
	if err != nil {
		return Status{}, err
	}
	c := collector{Server: s, st: Status{
		URL: s.URL.String(), Version: health.Version, At: time.Now().UTC(),
		Problems: append([]string{}, health.Damage...), Attention: health.Warnings, Off: health.Off, Missing: map[string]string{},
	}}
	var parts sync.WaitGroup
	for name, ask := range map[string]func(context.Context) error{
		"checks": c.checks, "lag": c.lag, "stages": c.stages, "queues": c.queues, "dead_letters": c.letters,
		"processes": c.processes,
	} {
		parts.Go(func() {
			if err := ask(asking); err != nil {
				c.miss(name, err)
			}
		})
	}
	parts.Wait()
	c.complete()
	if c.stranger != nil {
		return Status{}, c.stranger
	}
	c.st.judge()
	return c.st, ctx.Err()
}

// collector puts parts of a status together. Each part is written by one
// goroutine.
type collector struct {
	Server
	st Status

	mu       sync.Mutex // of Problems, Missing and stranger
	stranger error      // the server wants another token
}

// miss notes why there is no such part. That a server has none, or that the
// caller may not see it, is no problem of the installation.
func (c *collector) miss(part string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.st.Missing[part] = err.Error()
	switch statusOf(err) {
	case http.StatusNotFound, http.StatusBadRequest:
		c.st.Missing[part] = "not served at this address"
	case http.StatusUnauthorized:
		c.stranger = err
	case http.StatusForbidden:
	default:
		c.st.Problems = append(c.st.Problems, fmt.Sprintf("%s: %v", strings.ReplaceAll(part, "_", " "), err))
	}
}

func (c *collector) checks(ctx context.Context) error {
	r, err := c.readiness(ctx)
	c.st.Checks = r.Checks
	return err
}

func (c *collector) lag(ctx context.Context) error {
	lag := new(Lag)
	err := c.snapshot(ctx, "lag", lag)
	if err == nil {
		c.st.Lag = lag
	}
	return err
}

func (c *collector) queues(ctx context.Context) (err error) {
	c.st.Queues, err = c.allQueues(ctx)
	return err
}

// allQueues reads what stands in the queues of shards and in user-defined ones.
func (s Server) allQueues(ctx context.Context) ([]Queue, error) {
	var all struct {
		Queues []Queue `json:"queues"`
	}
	err := s.snapshot(ctx, "queues", &all)
	return all.Queues, err
}

// stages compares the funnel of the last minute with that of the last day, by
// the server's clock.
func (c *collector) stages(ctx context.Context) error {
	var day, minute Funnel
	if err := c.get(ctx, "/funnel", url.Values{"period": {"24h"}}, &day); err != nil {
		return err
	}
	from := day.GeneratedAt.Add(-time.Minute)
	if err := c.get(ctx, "/funnel", url.Values{"from": {from.Format(time.RFC3339Nano)}}, &minute); err != nil {
		return err
	}
	// The window may begin earlier: months that are summarized, and sketches,
	// are known in quarters of an hour.
	span := minute.GeneratedAt.Sub(minute.From)
	for i, stage := range minute.Stages {
		rate := StageRate{Stage: stage.Name, PerSecond: float64(stage.Events) / max(span.Seconds(), 1)}
		rate.LastMinute = uint64(rate.PerSecond*60 + 0.5)
		if i < len(day.Stages) {
			rate.LastDay = day.Stages[i].Events
		}
		c.st.Stages = append(c.st.Stages, rate)
	}
	return nil
}

// reasonsOf is of how many letters, the newest, the reasons are counted.
const reasonsOf = 1000

func (c *collector) letters(ctx context.Context) error {
	var page struct {
		Letters    []Reason `json:"letters"`
		NextCursor uint64   `json:"next_cursor"`
	}
	if err := c.get(ctx, "/dlq", url.Values{"limit": {fmt.Sprint(reasonsOf)}}, &page); err != nil {
		return err
	}
	l := &Letters{Count: uint64(len(page.Letters)), Counted: len(page.Letters)}
	if page.NextCursor != 0 {
		if err := c.snapshot(ctx, "dlq", l); err != nil { // which has count
			return err
		}
	}
	number := map[Reason]int{}
	for _, letter := range page.Letters {
		number[letter]++
	}
	for reason, n := range number {
		reason.Letters = n
		l.Reasons = append(l.Reasons, reason)
	}
	slices.SortFunc(l.Reasons, func(a, b Reason) int {
		return cmp.Or(b.Letters-a.Letters, cmp.Compare(a.Code, b.Code), cmp.Compare(a.Field, b.Field))
	})
	c.st.Letters = l
	return nil
}
