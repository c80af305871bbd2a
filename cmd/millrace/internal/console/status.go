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

	"github.com/millrace-io/millrace/internal/httpapi"
)

// Status is what an installation does at one moment. A part that the server
// does not tell is nil, and Missing says why.
type Status struct {
	URL       string    `json:"url"`
	Version   string    `json:"version"`
	At        time.Time `json:"at"`
	Well      bool      `json:"well"`
	Problems  []string  `json:"problems"`  // without any, all is well
	Attention []string  `json:"attention"` // what waits for somebody, while all is well

	Checks  []httpapi.CheckStatus `json:"checks"`
	Lag     *Lag                  `json:"lag,omitempty"`
	Stages  []StageRate           `json:"stages,omitempty"`
	Queues  []Queue               `json:"queues,omitempty"`
	Letters *Letters              `json:"dead_letters,omitempty"`
	Missing map[string]string     `json:"missing,omitempty"` // by part
}

// Lag is how far behind the event stream the views are.
type Lag struct {
	LastSeq uint64     `json:"last_seq"`
	Groups  []GroupLag `json:"groups"`
}

// GroupLag is how far behind a slot group is.
type GroupLag struct {
	Group         uint32  `json:"group"`
	FoldedSeq     uint64  `json:"folded_seq"`
	EventsBehind  uint64  `json:"events_behind"`
	SecondsBehind float64 `json:"seconds_behind"`
}

// StageRate is how many events of a stage there are.
type StageRate struct {
	Stage      string  `json:"stage"`
	PerSecond  float64 `json:"per_second"` // over the last minute
	LastMinute uint64  `json:"last_minute"`
	LastDay    uint64  `json:"last_24h"`
}

// Queue is what stands in a queue.
type Queue struct {
	Name        string     `json:"name"`
	Ready       int64      `json:"ready"`
	Delayed     int64      `json:"delayed"`
	Running     int64      `json:"running"`
	Done        int64      `json:"done"`
	Failed      int64      `json:"failed"` // dead ones included
	Dead        int64      `json:"dead"`
	Paused      bool       `json:"paused"`
	OldestSince *time.Time `json:"oldest_since"`
}

// Letters are the dead letters by reason.
type Letters struct {
	Count   uint64   `json:"count"`
	Counted int      `json:"counted"` // the newest, of which the reasons are
	Reasons []Reason `json:"reasons"` // the most frequent first
}

// Reason is why messages are dead letters.
type Reason struct {
	Code    string `json:"code"`
	Field   string `json:"field"`
	Letters int    `json:"letters"`
}

// StatusCmd prints a Status.
type StatusCmd struct {
	Server `embed:"" group:"Server"`
	JSON   bool `help:"Print JSON."`
}

// Run prints what an installation does. It fails when not all is well.
func (c *StatusCmd) Run(con *Console) error {
	st, err := collect(con.Ctx, c.Server)
	if err != nil {
		return err
	}
	if c.JSON {
		err = PrintJSON(con.Out, st)
	} else {
		err = st.write(con.Out)
	}
	if err == nil && !st.Well {
		err = fmt.Errorf("not well: %s", strings.Join(st.Problems, "; "))
	}
	return err
}

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
		Problems: []string{}, Attention: health.Warnings, Missing: map[string]string{},
	}}
	var parts sync.WaitGroup
	for name, ask := range map[string]func(context.Context) error{
		"checks": c.checks, "lag": c.lag, "stages": c.stages, "queues": c.queues, "dead_letters": c.letters,
	} {
		parts.Go(func() {
			if err := ask(asking); err != nil {
				c.miss(name, err)
			}
		})
	}
	parts.Wait()
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

// allQueues reads what stands in the queues of shards and in people's own.
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

// tooLate is for how many seconds the views may be behind while all is well.
const tooLate = 30

// judge says what is not well, and what waits for somebody.
func (st *Status) judge() {
	slices.Sort(st.Problems)
	for _, c := range st.Checks {
		if c.Status != "up" {
			st.Problems = append(st.Problems, fmt.Sprintf("%s is %s: %s", c.Name, c.Status, c.Error))
		} else if c.Warning != "" {
			st.Attention = append(st.Attention, c.Name+": "+c.Warning)
		}
	}
	if st.Lag != nil {
		for _, g := range st.Lag.Groups {
			if g.SecondsBehind >= tooLate {
				st.Problems = append(st.Problems, fmt.Sprintf("slot group %d is %s, %.0f seconds, behind the stream",
					g.Group, many(g.EventsBehind, "event", "events"), g.SecondsBehind))
			}
		}
	}
	for _, q := range st.Queues {
		if q.Failed > 0 {
			text := fmt.Sprintf("queue %s: %s, %d of them dead or cancelled",
				q.Name, many(q.Failed, "failed item", "failed items"), q.Dead)
			st.Attention = append(st.Attention, text)
		}
	}
	if st.Letters != nil && st.Letters.Count > 0 {
		letters := many(st.Letters.Count, "dead letter", "dead letters")
		st.Attention = append(st.Attention, letters+" (millrace dlq list)")
	}
	if st.Attention == nil {
		st.Attention = []string{}
	}
	st.Well = len(st.Problems) == 0
}
