package main

import (
	"compress/gzip"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/millrace-io/millrace/ingest/demo/internal/sample"
	"github.com/millrace-io/millrace/schemas/event"
)

// readArticles reads those articles that can be events.
func readArticles(file string) (map[string]sample.Article, error) {
	articles := map[string]sample.Article{}
	err := eachRow(file, func(row map[string]string) error {
		a := sample.Article{URL: row["url"], Source: row["source_name"], Image: row["has_image"] == "1"}
		if a.Source == "" {
			a.Source = "unknown"
		}
		var err, lengthErr error
		a.Rank, err = count(row["first_rank"])
		a.Length, lengthErr = count(row["content_len"])
		if err := errors.Join(err, lengthErr); err != nil {
			return err
		}
		for category := range strings.SplitSeq(row["categories"], "|") {
			if category != "" {
				a.Categories = append(a.Categories, category)
			}
		}
		if valid(a) {
			articles[row["article_id"]] = a
		}
		return nil
	})
	return articles, err
}

// count reads a number that is 0 when it is not known.
func count(text string) (int, error) {
	if text == "" {
		return 0, nil
	}
	return strconv.Atoi(text)
}

func valid(a sample.Article) bool {
	text, err := json.Marshal(event.Event{
		ArticleURL: a.URL, SourceName: a.Source, Stage: "crawled",
		ServiceName: "demo", OccurredAt: time.Unix(0, 0),
	})
	if err != nil {
		return false
	}
	var r event.Record
	return event.Decode(text, &r) == nil
}

// eachRow calls f with each row of a gzipped CSV file, by column name. The map
// is f's until it returns.
func eachRow(file string, f func(row map[string]string) error) error {
	in, err := os.Open(file)
	if err != nil {
		return err
	}
	defer in.Close()
	unzipped, err := gzip.NewReader(in)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	rows := csv.NewReader(unzipped)
	header, err := rows.Read()
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	named := map[string]string{}
	for {
		row, err := rows.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		for i, name := range header {
			named[name] = row[i]
		}
		if err := f(named); err != nil {
			line, _ := rows.FieldPos(0)
			return fmt.Errorf("%s: line %d: %w", file, line, err)
		}
	}
}
