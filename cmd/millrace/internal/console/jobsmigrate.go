package console

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// JobsMigrateCmd has jobs that were made by hand follow their sources.
type JobsMigrateCmd struct {
	Server `embed:"" group:"Server"`
	DryRun bool `help:"Change nothing, and print what would be done." name:"dry-run"`
	JSON   bool `help:"Print JSON."`
}

// Run prints what has been done to each job, or would be.
func (c *JobsMigrateCmd) Run(con *Console) error {
	query := url.Values{"dry_run": {strconv.FormatBool(c.DryRun)}}
	return answer(con, c.JSON, func(ctx context.Context, out any) error {
		return c.ask(ctx, http.MethodPost, "/jobs/migrate", query, nil, out)
	}, c.write)
}

// migrated are the jobs that follow their sources from now on.
type migrated struct {
	Jobs []struct {
		Action     string   `json:"action"`
		SourceID   string   `json:"source_id"`
		SourceName string   `json:"source_name"`
		Changes    []string `json:"changes"`
	} `json:"jobs"`
}

func (c *JobsMigrateCmd) write(done migrated, w io.Writer) error {
	var b strings.Builder
	count := map[string]int64{}
	for _, j := range done.Jobs {
		count[j.Action]++
		fmt.Fprintf(&b, "%s: source %s, %s\n", Plain(j.Action), Plain(j.SourceID), Plain(j.SourceName))
		for _, change := range j.Changes {
			fmt.Fprintf(&b, "  %s\n", Plain(change))
		}
	}
	does := [2]string{"migrated", "made"}
	if c.DryRun {
		does = [2]string{"to be migrated", "to be made"}
	}
	fmt.Fprintf(&b, "%s %s, %d %s, %d left without a source\n", many(count["migrate_job"], "job", "jobs"), does[0],
		count["create_job"], does[1], count["leave_job"])
	_, err := io.WriteString(w, b.String())
	return err
}
