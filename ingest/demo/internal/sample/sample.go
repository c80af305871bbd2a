// Package sample is the form in which a span of crawl history is kept: gzipped
// CSV, a row for each sighting of an article, in time order.
//
//	seconds,kind,article                                         met before in the file
//	seconds,kind,article,url,source,rank,length,image,categories met for the first time
//
// seconds is the time since the row before. Articles are numbered from 0 in
// the order in which the file meets them. Categories are separated by "|".
package sample

import (
	"compress/gzip"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// Kind says what a sighting was to the crawler that made it.
type Kind byte

const (
	First     Kind = 'f' // of the article
	FeedFirst Kind = 'o' // in another feed than before
	Reappear  Kind = 'r' // in a feed that had it before
)

// Article is what is known of an article.
type Article struct {
	URL        string
	Source     string
	Rank       int // place in the feed, from 0
	Length     int // of the content, in characters
	Image      bool
	Categories []string
}

// Sighting is one meeting of a crawler with an article.
type Sighting struct {
	After   time.Duration // since the sighting before, in whole seconds
	Kind    Kind
	Article int
}

// Sample is a span of history.
type Sample struct {
	Articles  []Article
	Sightings []Sighting
}

const (
	repeatColumns  = 3
	articleColumns = 9
)

// Read reads a sample.
func Read(r io.Reader) (*Sample, error) {
	unzipped, err := gzip.NewReader(r)
	if err != nil {
		return nil, fmt.Errorf("read sample: %w", err)
	}
	rows := csv.NewReader(unzipped)
	rows.FieldsPerRecord = -1
	rows.ReuseRecord = true
	s := &Sample{}
	for n := 1; ; n++ {
		row, err := rows.Read()
		if errors.Is(err, io.EOF) {
			return s, nil
		}
		if err == nil {
			err = s.add(row)
		}
		if err != nil {
			return nil, fmt.Errorf("read sample: row %d: %w", n, err)
		}
	}
}

func (s *Sample) add(row []string) error {
	if len(row) != repeatColumns && len(row) != articleColumns {
		return fmt.Errorf("%d columns", len(row))
	}
	seconds, err := number(row[0])
	if err != nil {
		return err
	}
	article, err := number(row[2])
	if err != nil {
		return err
	}
	if len(row[1]) != 1 || !strings.Contains("for", row[1]) {
		return fmt.Errorf("unknown kind %q", row[1])
	}
	if isNew := article == len(s.Articles); article > len(s.Articles) || isNew != (len(row) == articleColumns) {
		return fmt.Errorf("article %d with %d columns, after %d articles", article, len(row), len(s.Articles))
	}
	if len(row) == articleColumns {
		if err := s.addArticle(row[repeatColumns:]); err != nil {
			return err
		}
	}
	s.Sightings = append(s.Sightings, Sighting{time.Duration(seconds) * time.Second, Kind(row[1][0]), article})
	return nil
}

func (s *Sample) addArticle(row []string) error {
	rank, err := number(row[2])
	if err != nil {
		return err
	}
	length, err := number(row[3])
	if err != nil {
		return err
	}
	a := Article{URL: row[0], Source: row[1], Rank: rank, Length: length, Image: row[4] == "1"}
	if row[5] != "" {
		a.Categories = strings.Split(row[5], "|")
	}
	s.Articles = append(s.Articles, a)
	return nil
}

// number reads a number of at most 31 bits, so that a time of that many
// seconds fits a Duration.
func number(text string) (int, error) {
	n, err := strconv.ParseUint(text, 10, 31)
	return int(n), err
}

// Write writes the sample. Its articles must stand in the order in which the
// sightings meet them.
func (s *Sample) Write(w io.Writer) error {
	zipped, err := gzip.NewWriterLevel(w, gzip.BestCompression)
	if err != nil {
		return fmt.Errorf("write sample: %w", err)
	}
	rows := csv.NewWriter(zipped)
	written := 0
	for _, sighting := range s.Sightings {
		row := []string{
			strconv.Itoa(int(sighting.After / time.Second)), string(rune(sighting.Kind)),
			strconv.Itoa(sighting.Article),
		}
		if sighting.Article == written {
			row = append(row, columns(s.Articles[written])...)
			written++
		}
		if err := rows.Write(row); err != nil {
			return fmt.Errorf("write sample: %w", err)
		}
	}
	rows.Flush()
	if err := errors.Join(rows.Error(), zipped.Close()); err != nil {
		return fmt.Errorf("write sample: %w", err)
	}
	return nil
}

func columns(a Article) []string {
	image := "0"
	if a.Image {
		image = "1"
	}
	return []string{
		a.URL, a.Source, strconv.Itoa(a.Rank), strconv.Itoa(a.Length), image,
		strings.Join(a.Categories, "|"),
	}
}
