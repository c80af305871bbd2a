package console

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"time"
)

// storedEvent is what the commands read of an event.
type storedEvent struct {
	Seq        uint64    `json:"seq"`
	ArticleURL string    `json:"article_url"`
	Source     string    `json:"source_name"`
	Stage      string    `json:"stage"`
	OccurredAt time.Time `json:"occurred_at"`
	Service    string    `json:"service_name"`

	document json.RawMessage
}

func parseEvents(documents []json.RawMessage) ([]storedEvent, error) {
	events := make([]storedEvent, len(documents))
	for i, document := range documents {
		if err := json.Unmarshal(document, &events[i]); err != nil {
			return nil, fmt.Errorf("read an event: %w", err)
		}
		events[i].document = document
	}
	return events, nil
}

// EventsCmd prints events.
type EventsCmd struct {
	Server  `embed:"" group:"Server"`
	Stage   string `help:"Only events of this stage." placeholder:"classified"`
	Source  string `help:"Only events of this source." placeholder:"example_com"`
	Service string `help:"Only events of this service." placeholder:"classifier"`
	Trace   string `help:"Only events of this trace." placeholder:"4bf92f3577b34da6"`
	Article string `help:"Only events with this article_url." placeholder:"https://example.com/article-123"`
	Hash    string `help:"Only events of the article with this url_hash." placeholder:"SHA-256"`
	Since   Moment `help:"Only events at or after this time: RFC 3339, or a duration before now." placeholder:"24h"`
	Until   Moment `help:"Only events before this time." placeholder:"2026-02-10T00:00:00Z"`
	Limit   int    `help:"How many events at most; 0: all." default:"20"`
	Follow  bool   `help:"Go on with the events that come, the oldest first, until Ctrl-C." short:"f"`
	JSON    bool   `help:"Print a line of JSON for each event."`
}

// Validate makes contradictions bad usage.
func (c *EventsCmd) Validate() error {
	switch {
	case c.Limit < 0:
		return errNegativeLimit
	case c.Follow && !c.Until.IsZero():
		return errors.New("--until: must be left out with --follow")
	case c.Follow && c.Limit == 0:
		return errors.New("--limit: must be 1 or more with --follow")
	}
	return nil
}

var errNegativeLimit = errors.New("--limit: must not be negative")

func checkLimit(limit int) error {
	if limit < 0 {
		return errNegativeLimit
	}
	return nil
}

func (c *EventsCmd) query() url.Values {
	return notEmpty(map[string]string{
		"stage": c.Stage, "source": c.Source, "service": c.Service, "trace_id": c.Trace,
		"article_url": c.Article, "url_hash": c.Hash, "from": c.Since.parameter(), "to": c.Until.parameter(),
	})
}

// Run prints events, the newest first; those that it follows, as they come.
func (c *EventsCmd) Run(con *Console) error {
	out := eventPrinter{con: con, json: c.JSON, endless: c.Follow}
	if c.Follow {
		return c.follow(con, &out)
	}
	printPage := func(documents []json.RawMessage) (bool, error) {
		events, err := parseEvents(documents)
		if err != nil {
			return false, err
		}
		return true, out.print(events)
	}
	more, err := c.list(con.Ctx, "/events", "events", c.query(), c.Limit, printPage)
	if err != nil || c.JSON {
		return err
	}
	return con.endList(out.printed, more, "events")
}

// endList says what a list does not.
func (c *Console) endList(printed int, more bool, what string) (err error) {
	switch {
	case more:
		_, err = fmt.Fprintf(c.Out, "%d %s; there are more (--limit)\n", printed, what)
	case printed == 0:
		_, err = fmt.Fprintf(c.Out, "no %s\n", what)
	}
	return err
}

// eventPrinter prints events page by page.
type eventPrinter struct {
	con     *Console
	json    bool
	endless bool // pages come without end, so the columns of the first one stay
	printed int
	last    *table // nil: none was printed
}

func (p *eventPrinter) print(events []storedEvent) error {
	if p.json {
		documents := make([]json.RawMessage, len(events))
		for i, e := range events {
			documents[i] = e.document
		}
		return printLines(p.con.Out, documents)
	}
	t := newTable("OCCURRED", "STAGE", "SOURCE", "SERVICE", "ARTICLE")
	for _, e := range events {
		t.add(e.OccurredAt.UTC().Format("2006-01-02T15:04:05.000Z"), e.Stage, e.Source, e.Service, e.ArticleURL)
	}
	if len(events) == 0 {
		return nil
	}
	switch {
	case p.endless && p.last == nil:
		copy(t.width, followWidths)
	case p.endless:
		t.clip(p.last.width)
	}
	err := t.after(p.last, p.con.Out)
	p.last, p.printed = t, p.printed+len(events)
	return err
}
