package console

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/millrace-io/millrace/internal/httpapi"
	"github.com/millrace-io/millrace/internal/processes"
)

// Status is what an installation does at one moment. A part that the server
// does not tell is nil, and Missing says why.
type Status struct {
	URL       string    `json:"url"`
	Version   string    `json:"version"`
	At        time.Time `json:"at"`
	Well      bool      `json:"well"`      // it works
	Problems  []string  `json:"problems"`  // without any, it works
	Attention []string  `json:"attention"` // what waits for somebody, while it works

	Off     []httpapi.Off         `json:"off,omitempty"` // systems, and parts of them, that do not work
	Checks  []httpapi.CheckStatus `json:"checks"`
	Lag     *Lag                  `json:"lag,omitempty"`
	Stages  []StageRate           `json:"stages,omitempty"`
	Queues  []Queue               `json:"queues,omitempty"`
	Letters *Letters              `json:"dead_letters,omitempty"`

	Processes []processes.Process `json:"processes,omitempty"` // of the installation
	Alerts    []processes.Alert   `json:"alerts,omitempty"`    // whose conditions hold

	Missing map[string]string `json:"missing,omitempty"` // by part
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

// Run prints what an installation does. It fails when the installation does not work.
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

// tooLate is for how many seconds the views may be behind while all is well.
const tooLate = 30

// crawlQueue is the queue whose items are runs of jobs.
const crawlQueue = "crawl"

// longWait is for how long a run may wait for a worker before that is worth a warning.
const longWait = 5 * time.Minute

// waits is for how long the oldest item of a queue has been in it; 0: there is none.
func (st *Status) waits(q Queue) time.Duration {
	if q.OldestSince == nil {
		return 0
	}
	return st.At.Sub(*q.OldestSince)
}

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
	st.judgeOff()
	st.judgeProcesses()
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
	for _, q := range st.Queues {
		if waits := st.waits(q); q.Name == crawlQueue && waits >= longWait {
			st.Attention = append(st.Attention, fmt.Sprintf("queue %s: no worker has taken the oldest of %s for %s", q.Name,
				many(q.Ready, "run", "runs"), short(waits)))
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

// judgeOff tells what is off: a part that has failed is a problem. Systems that are off for the same reason, such as
// a server that is not configured, are told of at once.
func (st *Status) judgeOff() {
	var reasons []string
	systems := map[string][]string{}
	for _, off := range st.Off {
		if off.Part != "" {
			st.Problems = append(st.Problems, fmt.Sprintf("%s is off: its part %s fails: %s", off.System, off.Part, off.Reason))
			continue
		}
		if systems[off.Reason] == nil {
			reasons = append(reasons, off.Reason)
		}
		systems[off.Reason] = append(systems[off.Reason], off.System)
	}
	for _, reason := range reasons {
		st.Attention = append(st.Attention, fmt.Sprintf("off: %s: %s", strings.Join(systems[reason], ", "), reason))
	}
}
