package sources

import (
	"context"
	"fmt"

	"github.com/millrace-io/millrace/schemas/source"
)

// Imported counts what an import has done to the sources that it names.
type Imported struct {
	Created   int `json:"created"`
	Updated   int `json:"updated"`
	Unchanged int `json:"unchanged"`
}

// importLock is an advisory lock: two imports at once would both make a source that
// neither finds.
const importLock int64 = 0x6d696c6c_696d7074

// Import changes the sources with the URLs of drafts, and makes those that there are
// none of, in one transaction. The drafts break no rule, and have different URLs. Of
// several sources with one URL, the oldest is changed.
func (s *Store) Import(ctx context.Context, drafts []*source.Draft) (n Imported, err error) {
	err = s.transact(ctx, fmt.Sprintf("import %d sources", len(drafts)), func(c *change) error {
		n = Imported{}
		if _, err := c.Exec(ctx, "SELECT pg_advisory_xact_lock($1)", importLock); err != nil {
			return err
		}
		urls := make([]string, len(drafts))
		for i, d := range drafts {
			urls[i] = d.URL()
		}
		found, err := read(ctx, c, "WHERE url = ANY ($1) ORDER BY id FOR UPDATE", urls)
		if err != nil {
			return err
		}
		byURL := make(map[string]source.CrawlSource, len(found))
		for _, f := range found {
			if _, older := byURL[f.URL]; !older {
				byURL[f.URL] = f
			}
		}
		var made []source.Fields
		var edits []edit
		for _, d := range drafts {
			if was, ok := byURL[d.URL()]; !ok {
				made = append(made, d.Over(source.New()))
			} else if to := d.Over(was.Fields); len(source.Changed(was.Fields, to)) == 0 {
				n.Unchanged++
			} else {
				edits = append(edits, edit{was, to})
			}
		}
		n.Created, n.Updated = len(made), len(edits)
		if _, err := c.insert(ctx, made); err != nil {
			return err
		}
		_, err = c.update(ctx, edits, source.UserRequested)
		return err
	})
	return n, err
}
