package main

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/url"
	"slices"
	"strconv"
	"time"

	schema "github.com/millrace-io/millrace/schemas/uploads"
)

// pageSize is how many items a page has.
const pageSize = 100

// uploadPage is a kind of page.
type uploadPage struct {
	name, path string
	query      url.Values
	after      func() string
}

// pagesOf are the kinds of pages of an upload whose rows are pending: some of them from places among its rows.
func (u *uploading) pagesOf(ctx context.Context, id string) ([]uploadPage, error) {
	byRow := func() string { return schema.Cursor{Job: id, Row: int64(rand.IntN(u.n))}.Encode() }
	var places []string
	for range min(u.n, 100) {
		var page struct {
			Items []struct {
				RowNo     int64     `json:"row_no"`
				UpdatedAt time.Time `json:"updated_at"`
			}
		}
		err := u.get(ctx, u.user, "/uploads/"+id+"/items", url.Values{"pageSize": {"1"}, "after": {byRow()}}, &page)
		if err != nil {
			return nil, err
		}
		for _, item := range page.Items {
			places = append(places, schema.Cursor{Job: id, At: item.UpdatedAt, Row: item.RowNo}.Encode())
		}
	}
	byChange := func() string { return places[rand.IntN(len(places))] }
	statuses := url.Values{"statuses": {"PENDING,PROCESSING"}}
	return []uploadPage{
		{"grid page of 100", "/uploads/" + id + "/items", nil, byRow},
		{"pending page of 100 of one upload", "/uploads/" + id + "/items", statuses, byChange},
		{"pending page of 100 of all uploads", "/pending", statuses, byChange},
	}, nil
}

// measurePages asks for pages, in turns with reads of as many rows from a plain table by primary key.
func (u *uploading) measurePages(ctx context.Context, pages []uploadPage, when string) error {
	for _, page := range pages {
		var own, plain load
		for begin := time.Now(); len(own.latency) < 1000 && time.Since(begin) < 2*u.window(); {
			start := time.Now()
			query := url.Values{"pageSize": {strconv.Itoa(pageSize)}, "after": {page.after()}}
			maps.Copy(query, page.query)
			if err := u.get(ctx, u.user, page.path, query, nil); err != nil {
				return err
			}
			asked := time.Now()
			if err := u.plainPage(ctx); err != nil {
				return err
			}
			own.latency = append(own.latency, asked.Sub(start))
			plain.latency = append(plain.latency, time.Since(asked))
		}
		slices.Sort(own.latency)
		slices.Sort(plain.latency)
		name, by := fmt.Sprintf("%s, %s", page.name, when), "SQL, 100 rows by primary key"
		u.add(
			line{uploadSection, name + ": median", "ms", less, own.at(.5), by, plain.at(.5)},
			line{uploadSection, name + ": 99th percentile", "ms", less, own.at(.99), by, plain.at(.99)},
		)
	}
	return nil
}

// plainPage reads as many rows of the plain table as a page has.
func (u *uploading) plainPage(ctx context.Context) error {
	rows, err := u.pool.Query(ctx, "SELECT * FROM "+plainTable+" WHERE no > $1 ORDER BY no LIMIT $2", rand.IntN(u.n), pageSize)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if _, err := rows.Values(); err != nil {
			return err
		}
	}
	return rows.Err()
}
