package console

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"time"

	"github.com/millrace-io/millrace/schemas/item"
	"github.com/millrace-io/millrace/schemas/shard"
)

// FilesCmd are the commands on files of shards.
type FilesCmd struct {
	List   FilesListCmd   `cmd:"" default:"withargs" help:"List files, the newest first."`
	Show   FilesShowCmd   `cmd:"" help:"Show the shards of a file at each stage, and their last errors."`
	Cancel FilesCancelCmd `cmd:"" help:"Take the rest of a file out of the queues. What is done stays done."`
	Retry  FilesRetryCmd  `cmd:"" help:"Bring the failed shards of a file back, dead ones as well."`
}

// file is what the commands read of a file in a list.
type file struct {
	Filename    string     `json:"filename"`
	Shards      int64      `json:"shards"`
	Started     int64      `json:"started"`
	Done        int64      `json:"done"`
	Failed      int64      `json:"failed"`
	Priority    int64      `json:"priority"`
	UpdatedAt   time.Time  `json:"updated_at"`
	CancelledAt *time.Time `json:"cancelled_at"`
}

// FilesListCmd lists files.
type FilesListCmd struct {
	Server `embed:"" group:"Server"`
	Search string `help:"Only files whose names contain this." placeholder:"202501"`
	Status string `help:"Only files with a shard of this status (new, started, failed), or all of whose shards are done." enum:",new,started,done,failed" default:"" placeholder:"failed"`
	Stage  string `help:"With --status: at this stage." placeholder:"shard-worker"`
	Limit  int    `help:"How many files at most; 0: all." default:"100"`
	JSON   bool   `help:"Print a line of JSON for each file."`
}

// Validate makes a wrong limit bad usage.
func (c *FilesListCmd) Validate() error {
	if c.Limit < 0 {
		return errNegativeLimit
	}
	if c.Stage != "" && c.Status == "" {
		return errors.New("--stage: needs --status")
	}
	return nil
}

// Run lists files.
func (c *FilesListCmd) Run(con *Console) error {
	query := notEmpty(map[string]string{"search": c.Search, "status": c.Status, "stage": c.Stage})
	return fileList.print(con, c.Server, query, c.Limit, c.JSON)
}

var fileList = listed[file]{
	"/pipeline/files", "files", "file",
	[]string{"FILE", "SHARDS", "STARTED", "DONE", "FAILED", "PRIORITY", "CHANGED", ""},
	func(f file) []any {
		cancelled := ""
		if f.CancelledAt != nil {
			cancelled = "cancelled"
		}
		changed := f.UpdatedAt.UTC().Format(time.RFC3339)
		return []any{f.Filename, f.Shards, f.Started, f.Done, f.Failed, f.Priority, changed, cancelled}
	},
}

// shards are what the commands read of one file.
type shards struct {
	Filename string       `json:"filename"`
	Shards   []shardState `json:"shards"`
}

type shardState struct {
	Shard    int64     `json:"shard"`
	Ingest   string    `json:"event_ingest_status"`
	Splitter string    `json:"shard_splitter_status"`
	Worker   string    `json:"shard_worker_status"`
	Sender   string    `json:"mysql_sender_status"`
	Updated  time.Time `json:"updated_at"`
	Stages   map[string]struct {
		Attempts int    `json:"attempts"`
		Worker   string `json:"worker"`
		Error    string `json:"error"`
	} `json:"stages"`
}

// failedAt lists the stages with a queue at which the shard has failed.
func (s shardState) failedAt() (stages []shard.Stage) {
	for i, status := range []string{s.Splitter, s.Worker, s.Sender} {
		if status == item.Failed.String() {
			stages = append(stages, shard.Queues[i])
		}
	}
	return stages
}

// aFile is what commands on one file have.
type aFile struct {
	File   string `arg:"" help:"Name of the file."`
	Server `embed:"" group:"Server"`
	JSON   bool `help:"Print JSON."`
}

func (c *aFile) path() string { return "/pipeline/files/" + url.PathEscape(c.File) }

// FilesShowCmd shows a file.
type FilesShowCmd struct{ aFile }

// Run shows a file.
func (c *FilesShowCmd) Run(con *Console) error {
	return answer(con, c.JSON, func(ctx context.Context, out any) error {
		return c.get(ctx, c.path(), url.Values{"detail": {"true"}}, out)
	}, shards.write)
}

func (f shards) write(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n", Plain(f.Filename), many(len(f.Shards), "shard", "shards"))
	t := newTable("SHARD", "EVENT-INGEST", "SHARD-SPLITTER", "SHARD-WORKER", "MYSQL-SENDER", "CHANGED")
	for _, s := range f.Shards {
		t.add(s.Shard, s.Ingest, s.Splitter, s.Worker, s.Sender, s.Updated.UTC().Format(time.RFC3339))
	}
	if err := t.write(&b, ""); err != nil {
		return err
	}
	failures := newTable("SHARD", "FAILED AT", "ATTEMPTS", "WORKER", "ERROR")
	for _, s := range f.Shards {
		for _, stage := range s.failedAt() {
			d := s.Stages[stage.Column()]
			failures.add(s.Shard, stage.String(), d.Attempts, d.Worker, d.Error)
		}
	}
	if len(failures.rows) > 1 {
		b.WriteString("\n")
		if err := failures.write(&b, ""); err != nil {
			return err
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// FilesCancelCmd cancels a file.
type FilesCancelCmd struct {
	aFile
	Yes bool `help:"Do not ask first."`
}

// Run cancels a file.
func (c *FilesCancelCmd) Run(con *Console) error {
	var f shards
	if err := c.get(con.Ctx, c.path(), nil, &f); err != nil {
		return err
	}
	rest := 0
	for _, s := range f.Shards {
		if s.Sender != item.Done.String() {
			rest++
		}
	}
	all := many(len(f.Shards), "shard", "shards")
	what := fmt.Sprintf("cancel %s, of which %d of %s are not done", Plain(c.File), rest, all)
	if err := con.confirm(c.Yes, what); err != nil {
		return err
	}
	return answer(con, c.JSON, func(ctx context.Context, out any) error {
		return c.post(ctx, c.path()+"/cancel", struct{}{}, out)
	}, func(done struct{ Failed int }, w io.Writer) error {
		items := many(done.Failed, "item was", "items were")
		_, err := fmt.Fprintf(w, "%s is cancelled: %s taken out\n", Plain(c.File), items)
		return err
	})
}

// FilesRetryCmd retries the failed shards of a file.
type FilesRetryCmd struct {
	aFile
	Yes bool `help:"Do not ask first."`
}

// Run retries the failed shards of a file.
func (c *FilesRetryCmd) Run(con *Console) error {
	var f shards
	if err := c.get(con.Ctx, c.path(), nil, &f); err != nil {
		return err
	}
	failed := map[shard.Stage]int{}
	n := 0
	for _, s := range f.Shards {
		for _, stage := range s.failedAt() {
			failed[stage]++
			n++
		}
	}
	if n == 0 {
		return con.nothing("no shard of %s has failed", c.File)
	}
	what := many(n, "failed shard", "failed shards") + " of " + Plain(c.File)
	if err := con.confirm(c.Yes, "retry "+what); err != nil {
		return err
	}
	retried := 0
	for _, stage := range shard.Queues {
		if failed[stage] == 0 {
			continue
		}
		var answer struct {
			Retried int `json:"retried"`
		}
		body := map[string]any{"filename": f.Filename, "include_dead": true}
		if err := c.post(con.Ctx, "/pipeline/stages/"+stage.String()+"/retry-failed", body, &answer); err != nil {
			return err
		}
		retried += answer.Retried
	}
	if c.JSON {
		return PrintJSON(con.Out, map[string]any{"filename": f.Filename, "retried": retried})
	}
	_, err := fmt.Fprintf(con.Out, "%s retried\n", many(retried, "shard was", "shards were"))
	return err
}
