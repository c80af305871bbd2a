package console

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// SourcesCmd are the commands on the sources that are crawled.
type SourcesCmd struct {
	List   SourcesListCmd   `cmd:"" default:"withargs" help:"List the sources, in the order in which they were made."`
	Import SourcesImportCmd `cmd:"" help:"Make and change sources by a list. The same list again changes nothing."`
	Export SourcesExportCmd `cmd:"" help:"Write the sources as a list."`
}

// sourceFilter selects sources.
type sourceFilter struct {
	Search   string `help:"Only sources with this in their name or URL." placeholder:"news"`
	Enabled  string `help:"Only sources that are enabled (true), or that are not (false)." enum:",true,false" default:"" placeholder:"true"`
	Priority string `help:"Only sources of this priority." enum:",low,normal,high,critical" default:"" placeholder:"high"`
}

func (f sourceFilter) query() url.Values {
	return notEmpty(map[string]string{"q": f.Search, "enabled": f.Enabled, "priority": f.Priority})
}

// SourcesListCmd lists sources.
type SourcesListCmd struct {
	Server `embed:"" group:"Server"`
	sourceFilter
	Limit int  `help:"How many sources at most; 0: all." default:"100"`
	JSON  bool `help:"Print a line of JSON for each source."`
}

// Validate makes a wrong limit bad usage.
func (c *SourcesListCmd) Validate() error {
	return checkLimit(c.Limit)
}

// Run lists sources.
func (c *SourcesListCmd) Run(con *Console) error {
	return sourceList.print(con, c.Server, c.query(), c.Limit, c.JSON)
}

// listedSource is what the commands read of a source in a list.
type listedSource struct {
	ID        string    `json:"id"`
	Name      string    `json:"name"`
	URL       string    `json:"url"`
	Enabled   bool      `json:"enabled"`
	Priority  string    `json:"priority"`
	UpdatedAt time.Time `json:"updated_at"`
}

var sourceList = listed[listedSource]{
	"/sources", "items", "source",
	[]string{"SOURCE", "NAME", "PRIORITY", "ENABLED", "CHANGED", "URL"},
	func(s listedSource) []any {
		enabled := "yes"
		if !s.Enabled {
			enabled = "no"
		}
		return []any{s.ID, s.Name, s.Priority, enabled, s.UpdatedAt.UTC().Format(time.RFC3339), s.URL}
	},
}

// listTypes are the types of content of the formats of lists.
var listTypes = map[string]string{"opml": "text/x-opml", "csv": "text/csv", "jsonl": "application/x-ndjson"}

// formatOf tells a list's format by the name of its file; empty: it does not tell.
func formatOf(file string) string {
	switch strings.ToLower(filepath.Ext(file)) {
	case ".opml", ".xml":
		return "opml"
	case ".csv":
		return "csv"
	case ".jsonl", ".ndjson":
		return "jsonl"
	}
	return ""
}

// importPatience is how long an import may take.
const importPatience = 5 * time.Minute

// SourcesImportCmd imports a list.
type SourcesImportCmd struct {
	File   string `arg:"" help:"The list: OPML, CSV with a header, or JSON lines; - for standard input."`
	Server `embed:"" group:"Server"`
	Format string `help:"Format of the list: opml, csv or jsonl; default by the file's name." enum:",opml,csv,jsonl" default:"" placeholder:"csv"`
	JSON   bool   `help:"Print JSON."`
}

// Validate makes a list of no known format bad usage.
func (c *SourcesImportCmd) Validate() error {
	if c.Format == "" && formatOf(c.File) == "" {
		return errors.New("--format: is required, as the file's name does not end in .opml, .csv or .jsonl")
	}
	return nil
}

// importedSources is what became of a list.
type importedSources struct {
	Created   int `json:"created"`
	Updated   int `json:"updated"`
	Unchanged int `json:"unchanged"`
	Repeated  int `json:"repeated"`
	Refused   int `json:"refused"`
	Errors    []struct {
		Line  int    `json:"line"`
		Field string `json:"field"`
		Rule  string `json:"rule"`
	} `json:"errors"`
	IgnoredColumns []string `json:"ignored_columns"`
}

// Run imports the list. It fails when lines were refused, after all others have gone
// in.
func (c *SourcesImportCmd) Run(con *Console) error {
	list := con.In
	if c.File != "-" {
		f, err := os.Open(c.File)
		if err != nil {
			return err
		}
		defer f.Close()
		list = f
	}
	format := c.Format
	if format == "" {
		format = formatOf(c.File)
	}
	done, err := answered(con, c.JSON, func(ctx context.Context, out any) error {
		return c.postList(ctx, listTypes[format], list, out)
	}, importedSources.write)
	if err == nil && done.Refused > 0 {
		err = fmt.Errorf("%s refused; all others are in", many(done.Refused, "line was", "lines were"))
	}
	return err
}

func (s Server) postList(ctx context.Context, kind string, list io.Reader, out any) error {
	ctx, cancel := context.WithTimeout(ctx, importPatience)
	defer cancel()
	resp, err := s.sendText(ctx, http.MethodPost, base+"/sources/import", nil, kind, list)
	if err != nil {
		return err
	}
	return s.decode(resp, out)
}

func (n importedSources) write(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%d created, %d updated, %d unchanged, %d repeated in the list, %d refused\n", n.Created, n.Updated,
		n.Unchanged, n.Repeated, n.Refused)
	if len(n.IgnoredColumns) > 0 {
		fmt.Fprintf(&b, "columns that are no fields of a source: %s\n", Plain(strings.Join(n.IgnoredColumns, ", ")))
	}
	for _, e := range n.Errors {
		fmt.Fprintf(&b, "line %d: %s\n", e.Line, Plain(strings.TrimPrefix(e.Field+": "+e.Rule, ": ")))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// SourcesExportCmd exports sources.
type SourcesExportCmd struct {
	Server `embed:"" group:"Server"`
	Format string `help:"Format of the list." enum:"opml,csv,jsonl" default:"jsonl"`
	sourceFilter
}

// Run prints the list.
func (c *SourcesExportCmd) Run(con *Console) error {
	query := c.query()
	query.Set("format", c.Format)
	resp, err := c.send(con.Ctx, http.MethodGet, base+"/sources/export", query, nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode >= 300 {
		return refusal(resp)
	}
	if _, err := io.Copy(con.Out, resp.Body); err != nil {
		return fmt.Errorf("the list is not whole: %w", err)
	}
	return nil
}
