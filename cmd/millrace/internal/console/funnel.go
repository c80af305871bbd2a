package console

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/millrace-io/millrace/internal/httpapi"
)

// Funnel is what the commands read of GET /funnel.
type Funnel struct {
	Period      string        `json:"period"`
	Timezone    string        `json:"timezone"`
	Source      string        `json:"source"`
	From        time.Time     `json:"from"`
	To          time.Time     `json:"to"`
	Stages      []FunnelStage `json:"stages"`
	UniqueError float64       `json:"unique_error"`
	GeneratedAt time.Time     `json:"generated_at"`
	Stream      struct {
		Behind     uint64     `json:"behind"`
		StaleSince *time.Time `json:"stale_since"`
	} `json:"stream"`
	Notes []httpapi.FieldError `json:"notes"`
}

// FunnelStage is a stage of a funnel.
type FunnelStage struct {
	Name     string `json:"name"`
	Events   uint64 `json:"count"`
	Articles uint64 `json:"unique_articles"`
}

// FunnelCmd prints a funnel.
type FunnelCmd struct {
	Server `embed:"" group:"Server"`
	Period string `help:"A period that ends now: today (the default), 24h, 7d or 30d." enum:",today,24h,7d,30d" default:"" placeholder:"24h"`
	Since  Moment `help:"Only events at or after this time, instead of a period: RFC 3339, or a duration before now." placeholder:"6h"`
	Until  Moment `help:"Only events before this time." placeholder:"2026-02-10T00:00:00Z"`
	TZ     string `help:"Time zone in which today begins; without it UTC." name:"tz" placeholder:"Europe/Berlin"`
	Source string `help:"Only events of this source." placeholder:"example_com"`

	ExcludeReclassifications bool `help:"Leave out events whose metadata says is_reclassification."`
	JSON                     bool `help:"Print JSON."`
}

// Validate makes two windows at once bad usage.
func (c *FunnelCmd) Validate() error {
	if c.Period != "" && !c.Since.IsZero() {
		return errors.New("--period: must be left out where --since is given")
	}
	return nil
}

// Run prints a funnel.
func (c *FunnelCmd) Run(con *Console) error {
	query := notEmpty(map[string]string{
		"period": c.Period, "from": c.Since.parameter(), "to": c.Until.parameter(), "tz": c.TZ, "source": c.Source,
	})
	if c.ExcludeReclassifications {
		query.Set("exclude_reclassifications", "true")
	}
	return answer(con, c.JSON, func(ctx context.Context, out any) error {
		return c.get(ctx, "/funnel", query, out)
	}, Funnel.write)
}

// answer prints what a server answers: the answer itself, or what people read.
func answer[T any](
	con *Console, asJSON bool, ask func(context.Context, any) error, write func(T, io.Writer) error,
) error {
	_, err := answered(con, asJSON, ask, write)
	return err
}

// answered is answer, and returns what it has read.
func answered[T any](
	con *Console, asJSON bool, ask func(context.Context, any) error, write func(T, io.Writer) error,
) (v T, err error) {
	var document json.RawMessage
	if err := ask(con.Ctx, &document); err != nil {
		return v, err
	}
	if err := json.Unmarshal(document, &v); err != nil {
		return v, fmt.Errorf("read the answer: %w", err)
	}
	if asJSON {
		return v, PrintJSON(con.Out, document)
	}
	return v, write(v, con.Out)
}

func (f Funnel) write(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, %s to %s, ", f.window(), f.time(f.From), f.time(f.To))
	if f.Source == "" {
		b.WriteString("all sources\n")
	} else {
		fmt.Fprintf(&b, "source %s\n", Plain(f.Source))
	}
	t := newTable("STAGE", "EVENTS", "ARTICLES", "% OF FIRST", "% OF BEFORE")
	for i, s := range f.Stages {
		first, before := f.Stages[0], f.Stages[max(i-1, 0)]
		t.add(s.Name, s.Events, s.Articles, share(s.Articles, first.Articles), share(s.Articles, before.Articles))
	}
	if err := t.write(&b, ""); err != nil {
		return err
	}
	if f.UniqueError > 0 {
		fmt.Fprintf(&b, "articles are estimates, within %.1f %%\n", 100*f.UniqueError)
	}
	if since := f.Stream.StaleSince; since != nil {
		fmt.Fprintf(&b, "the numbers are from %s\n", f.time(*since))
	}
	if f.Stream.Behind > 0 {
		fmt.Fprintf(&b, "%s not counted yet\n", many(f.Stream.Behind, "event is", "events are"))
	}
	b.WriteString(notes(f.Notes))
	_, err := io.WriteString(w, b.String())
	return err
}

func (f Funnel) window() string {
	switch f.Period {
	case "today":
		return "today in " + Plain(f.Timezone)
	case "custom":
		return "custom window"
	}
	return "last " + Plain(f.Period)
}

// time is a moment in the zone of the funnel.
func (f Funnel) time(at time.Time) string {
	if zone, err := time.LoadLocation(f.Timezone); err == nil {
		at = at.In(zone)
	}
	return at.Format("2006-01-02 15:04:05 MST")
}

// share is a part in percent, or nothing where there is no whole.
func share(part, whole uint64) any {
	if whole == 0 {
		return ""
	}
	return 100 * float64(part) / float64(whole)
}

// notes prints what a server adds to an answer, a line each.
func notes(all []httpapi.FieldError) string {
	text := ""
	for _, n := range all {
		text += "note: " + n.Field + " " + n.Rule + "\n"
	}
	return Plain(text)
}
