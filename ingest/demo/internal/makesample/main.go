// Makesample cuts the demo's sample out of a recorded crawl history: two
// gzipped CSV files, one row for each article and one for each sighting.
//
//	makesample [-from TIME] [-to TIME] -o sample.csv.gz articles.csv.gz sightings.csv.gz
//
// It keeps URLs, sources, times, categories and three small numbers. Titles,
// authors and texts belong to their publishers and stay behind.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/millrace-io/millrace/ingest/demo/internal/sample"
	"github.com/millrace-io/millrace/schemas/instant"
)

// maxSize is what the sample may add to the repository and the binary.
const maxSize = 2 << 20

func main() {
	// Five whole days: as many as fit with room to spare. Before them the
	// history has gaps of a day.
	from := flag.String("from", "2020-04-21T00:00:00Z", "first time to keep")
	to := flag.String("to", "2020-04-26T00:00:00Z", "first time to leave out")
	out := flag.String("o", "sample.csv.gz", "file to write")
	flag.Parse()
	if flag.NArg() != 2 {
		fmt.Fprintln(os.Stderr, "makesample: name the file of articles and the file of sightings")
		os.Exit(2)
	}
	if err := run(*from, *to, *out, flag.Arg(0), flag.Arg(1)); err != nil {
		fmt.Fprintln(os.Stderr, "makesample:", err)
		os.Exit(1)
	}
}

func run(from, to, out, articlesFile, sightingsFile string) error {
	var c cutter
	var err error
	if c.from, err = instant.Parse(from); err != nil {
		return fmt.Errorf("-from: %w", err)
	}
	if c.to, err = instant.Parse(to); err != nil {
		return fmt.Errorf("-to: %w", err)
	}
	if c.articles, err = readArticles(articlesFile); err != nil {
		return err
	}
	c.numbers = map[string]int{}
	if err := eachRow(sightingsFile, c.add); err != nil {
		return err
	}
	var file bytes.Buffer
	if err := c.sample.Write(&file); err != nil {
		return err
	}
	if file.Len() > maxSize {
		return fmt.Errorf("the sample has %d bytes, more than %d: choose a shorter span", file.Len(), maxSize)
	}
	fmt.Printf("%s: %d bytes, %d sightings of %d articles\n", out, file.Len(), len(c.sample.Sightings),
		len(c.sample.Articles))
	return os.WriteFile(out, file.Bytes(), 0o644)
}

// cutter collects the sightings of a span, which come in time order.
type cutter struct {
	from, to time.Time
	articles map[string]sample.Article // by the history's article_id
	numbers  map[string]int            // of the articles met, likewise
	last     time.Time
	sample   sample.Sample
}

func (c *cutter) add(row map[string]string) error {
	at, err := instant.Parse(row["seen_at"])
	if err != nil {
		return fmt.Errorf("seen_at: %w", err)
	}
	id := row["article_id"]
	article, ok := c.articles[id]
	if !ok || at.Before(c.from) || !at.Before(c.to) {
		return nil
	}
	kind, ok := map[string]sample.Kind{
		"first": sample.First, "feed_first": sample.FeedFirst,
		"reappear": sample.Reappear,
	}[row["kind"]]
	if !ok {
		return fmt.Errorf("unknown kind %q", row["kind"])
	}
	if c.last.IsZero() {
		c.last = at
	}
	number, ok := c.numbers[id]
	if !ok {
		number = len(c.numbers)
		c.numbers[id] = number
		c.sample.Articles = append(c.sample.Articles, article)
	}
	c.sample.Sightings = append(c.sample.Sightings, sample.Sighting{After: at.Sub(c.last), Kind: kind, Article: number})
	c.last = at
	return nil
}
