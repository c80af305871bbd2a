package console

import (
	"context"
	"fmt"
	"io"
	"net/http"
)

// BatchesCmd are the commands on batches of crawled items.
type BatchesCmd struct {
	Modes      BatchesModesCmd      `cmd:"" default:"withargs" help:"Show which messages about batches are taken. With flags, change that at once. Messages that are not taken wait, without a limit of time."`
	Reclassify BatchesReclassifyCmd `cmd:"" help:"Compute the projects and the categories of errors of all stored batches again, by the rules of this release."`
}

// BatchesModesCmd shows or changes the modes.
type BatchesModesCmd struct {
	Server `embed:"" group:"Server"`
	New    string   `help:"Whether data.collected events are taken: on or off." enum:",on,off" default:"" placeholder:"on"`
	Legacy string   `help:"Whether messages with data_ref are taken: on or off." enum:",on,off" default:"" placeholder:"off"`
	Share  *float64 `help:"Share of jobs, from 0 to 1, whose data.collected events are taken. A job that is in a share is in every larger one." placeholder:"0.1"`
	JSON   bool     `help:"Print JSON."`
}

// Validate refuses a share that is not between 0 and 1 as bad usage.
func (c *BatchesModesCmd) Validate() error {
	if c.Share != nil && (*c.Share < 0 || *c.Share > 1) {
		return fmt.Errorf("--share: must be from 0 to 1, not %v", *c.Share)
	}
	return nil
}

// change is what the flags ask for.
func (c *BatchesModesCmd) change() map[string]any {
	change := map[string]any{}
	if c.New != "" {
		change["new_mode"] = c.New == "on"
	}
	if c.Legacy != "" {
		change["legacy_mode"] = c.Legacy == "on"
	}
	if c.Share != nil {
		change["new_mode_share"] = *c.Share
	}
	return change
}

// Run prints the modes, changed or not.
func (c *BatchesModesCmd) Run(con *Console) error {
	return answer(con, c.JSON, func(ctx context.Context, out any) error {
		if change := c.change(); len(change) > 0 {
			return c.ask(ctx, http.MethodPut, "/batches/modes", nil, change, out)
		}
		return c.get(ctx, "/batches/modes", nil, out)
	}, modes.write)
}

// modes are which messages about batches are taken.
type modes struct {
	New    bool    `json:"new_mode"`
	Legacy bool    `json:"legacy_mode"`
	Share  float64 `json:"new_mode_share"`
}

func (m modes) write(w io.Writer) error {
	word := map[bool]string{true: "taken", false: "waiting"}
	_, err := fmt.Fprintf(w, "data.collected events: %s, of %v %% of the jobs\nlegacy messages (data_ref): %s\n"+
		"inline items: taken\n", word[m.New], m.Share*100, word[m.Legacy])
	return err
}
