package console

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// reclassifyPatience is how long the command waits: the server gives up after 10 minutes.
const reclassifyPatience = 11 * time.Minute

// BatchesReclassifyCmd computes projects and categories of stored batches again.
type BatchesReclassifyCmd struct {
	Server `embed:"" group:"Server"`
	DryRun bool `help:"Change nothing, and print what would be changed." name:"dry-run"`
	JSON   bool `help:"Print JSON."`
}

// reclassified are changes of one kind, as the server tells them.
type reclassified struct {
	Count   int64 `json:"count"`
	Rows    int64 `json:"rows"`
	Changes []struct {
		Of   string `json:"of"`
		From string `json:"from"`
		To   string `json:"to"`
		Rows int64  `json:"rows"`
	} `json:"changes"`
}

// Run prints what has changed, or would change.
func (c *BatchesReclassifyCmd) Run(con *Console) error {
	body := map[string]bool{"dry_run": c.DryRun}
	return answer(con, c.JSON, func(ctx context.Context, out any) error {
		return c.askFor(ctx, reclassifyPatience, http.MethodPost, "/batches/reclassify", nil, body, out)
	}, func(done struct{ Projects, Categories reclassified }, w io.Writer) error {
		verb := map[bool]string{false: "changed", true: "to be changed"}[c.DryRun]
		var b strings.Builder
		done.Projects.print(&b, "project", "job", "jobs", verb)
		done.Categories.print(&b, "category", "error code", "error codes", verb)
		_, err := io.WriteString(w, b.String())
		return err
	})
}

func (r reclassified) print(b *strings.Builder, value, one, several, verb string) {
	for _, c := range r.Changes {
		fmt.Fprintf(b, "%s %s: %s %s, was %s (%s)\n", one, Plain(c.Of), value, orEmpty(c.To), orEmpty(c.From),
			many(c.Rows, "outcome", "outcomes"))
	}
	fmt.Fprintf(b, "%s of %s %s, with %s\n", value, many(r.Count, one, several), verb, many(r.Rows, "outcome", "outcomes"))
}

func orEmpty(text string) string {
	if text == "" {
		return "none"
	}
	return Plain(text)
}
