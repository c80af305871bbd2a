package reads

import (
	"encoding/base64"
	"encoding/json"
	"strconv"
)

// Page are the parameters of a page of a list.
type Page struct {
	Limit  int    `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"How many items a page has at most"`
	Cursor string `query:"cursor" doc:"next_cursor of the page before, with the same filters"`
}

// List is a page of a list. An answer embeds it.
type List[T any] struct {
	Items      []T    `json:"items" nullable:"false"`
	NextCursor string `json:"next_cursor,omitempty" doc:"For the next page; absent from the last"`
}

// ListOf returns a page of all, which has one item more than the page may have when another page follows. at returns
// the position of an item.
func ListOf[T, P any](c Cursor[P], all []T, limit int, at func(T) P) List[T] {
	items, next := Cut(c, all, limit, at)
	return List[T]{append([]T{}, items...), next}
}

// Cut is ListOf for answers with fields of their own.
func Cut[T, P any](c Cursor[P], all []T, limit int, at func(T) P) (items []T, next string) {
	if len(all) <= limit {
		return all, ""
	}
	return all[:limit], c.Encode(at(all[limit-1]))
}

// Numbers are the cursors of a list in the order of numbers that are not negative.
var Numbers = Cursor[int64]{
	Encode: func(n int64) string { return strconv.FormatInt(n, 10) },
	Decode: func(text string) (int64, bool) {
		n, err := strconv.ParseInt(text, 10, 64)
		return n, err == nil && n >= 0
	},
}

// JSON returns cursors that are positions as JSON. valid holds those that come back.
func JSON[P any](valid func(P) bool) Cursor[*P] {
	return Cursor[*P]{
		Encode: func(at *P) string {
			b, _ := json.Marshal(at) // of numbers, times and names
			return base64.RawURLEncoding.EncodeToString(b)
		},
		Decode: func(text string) (*P, bool) {
			var at P
			b, err := base64.RawURLEncoding.DecodeString(text)
			if err == nil {
				err = json.Unmarshal(b, &at)
			}
			return &at, err == nil && valid(at)
		},
	}
}
