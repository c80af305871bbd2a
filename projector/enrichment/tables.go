package enrichment

import (
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/millrace-io/millrace/internal/dbpool"

	schema "github.com/millrace-io/millrace/schemas/batches"
)

//go:embed sql/*.sql
var files embed.FS

func text(name string) string {
	sql, err := files.ReadFile("sql/" + name + ".sql")
	if err != nil {
		panic(err) // it is part of the program
	}
	return string(sql)
}

// Bounds of what is enriched at once. One sequence may have more, at most a batch.
const (
	mostItems = 2000
	mostBytes = 16 << 20 // of contents
	// window is how many sequences are looked at at once.
	window = 128
)

// item is an outcome that is enriched.
type item struct {
	schema.AnalyserItem
	readAt time.Time
	seq    uint64
}

// tables are those that outcomes are read from, and analyses are written to.
type tables struct{ conn driver.Conn }

// number runs a query whose answer is one number.
func (t tables) number(ctx context.Context, query string, args ...any) (n uint64, err error) {
	if err := t.conn.QueryRow(ctx, text(query), args...).Scan(&n); err != nil {
		return 0, fmt.Errorf("query %s: %w", query, err)
	}
	return n, nil
}

// end returns the last sequence of what is enriched next, behind a position and up to another
// one: that when there is nothing.
func (t tables) end(ctx context.Context, at, upto uint64) (uint64, error) {
	first, err := t.number(ctx, "next", at, upto)
	if err != nil || first == 0 {
		return upto, err
	}
	rows, err := t.conn.Query(ctx, text("sizes"), first-1, min(upto, first-1+window))
	if err != nil {
		return 0, fmt.Errorf("look how many outcomes there are: %w", err)
	}
	defer rows.Close()
	var seq, items, bytes, allItems, allBytes uint64
	end := first
	for rows.Next() {
		if err := rows.Scan(&seq, &items, &bytes); err != nil {
			return 0, fmt.Errorf("look how many outcomes there are: %w", err)
		}
		allItems, allBytes = allItems+items, allBytes+bytes
		if seq > first && (allItems > mostItems || allBytes > mostBytes) {
			break
		}
		end = seq
	}
	return end, rows.Err()
}

// read returns the outcomes of a range of sequences that are enriched.
func (t tables) read(ctx context.Context, from, to uint64) (all []item, err error) {
	err = dbpool.EachRow(ctx, t.conn, text("items"), []any{from, to}, func(rows driver.Rows) error {
		var i item
		var content string
		err := rows.Scan(&i.JobID, &i.BatchIndex, &i.Position, &i.Attempts, &i.ProjectID, &i.Platform, &i.KeywordSource,
			&i.ContentID, &i.CrawledAt, &content, &i.readAt, &i.seq)
		i.Content = json.RawMessage(content)
		all = append(all, i)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read outcomes: %w", err)
	}
	return all, nil
}

const sqlInsert = `INSERT INTO item_analyses (job_id, batch_index, position, version, engagement, engagement_rate, impact,
	sentiment, sentiment_score, intent, language, keywords, risk, asked, analyser, analysis_error, read_at, analysed_at, seq)`

// write stores what was found out about items, in their order. It is durable when it returns. Of an insert into several
// partitions a crash may leave some, and the last sequence that is there would not tell (invariant 2): so each insert is of one.
func (t tables) write(ctx context.Context, items []item, found []analysis, asked uint8) error {
	for from := 0; from < len(items); {
		to := from + sameMonth(items[from:])
		if err := t.insert(ctx, items[from:to], found[from:to], asked); err != nil {
			return fmt.Errorf("write analyses: %w", err)
		}
		from = to
	}
	return nil
}

// sameMonth is how many of the first items have rows in the same partition.
func sameMonth(items []item) int {
	year, month, _ := items[0].readAt.UTC().Date()
	for n := range items {
		if y, m, _ := items[n].readAt.UTC().Date(); y != year || m != month {
			return n
		}
	}
	return len(items)
}

func (t tables) insert(ctx context.Context, items []item, found []analysis, asked uint8) error {
	ctx = clickhouse.Context(ctx, clickhouse.WithSettings(clickhouse.Settings{"async_insert": 0}))
	b, err := t.conn.PrepareBatch(ctx, sqlInsert)
	if err != nil {
		return err
	}
	defer func() { _ = b.Close() }() // nothing is left of one that was sent
	now := time.Now().UTC()
	for n := range items {
		i, f := &items[n], &found[n]
		said := schema.ReadInteractions(i.Content)
		keywords := f.Keywords
		if keywords == nil {
			keywords = []string{}
		}
		err := b.Append(i.JobID, i.BatchIndex, i.Position, i.Attempts, known(said.Engagement), known(said.EngagementRate),
			known(said.Impact), f.Sentiment, f.SentimentScore, f.Intent, f.Language, keywords, f.Risk, asked, f.analyser,
			f.Error, i.readAt, now, i.seq)
		if err != nil {
			return err
		}
	}
	return b.Send()
}

// known is a number, and null for one that is not known.
func known(of func() (float64, bool)) *float64 {
	if n, is := of(); is {
		return &n
	}
	return nil
}
