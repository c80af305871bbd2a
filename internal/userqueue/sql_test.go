package userqueue_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/millrace-io/millrace/internal/nearest"
	"github.com/millrace-io/millrace/internal/queue"
)

// TestSQL: what breaks a rule is refused by millrace.enqueue with each member and its rule.
func TestSQL(t *testing.T) {
	s, _ := open(t, func(v *queue.Settings) { v.MaxItems = 1000 })
	add := func(items string) error {
		_, err := s.Queues().Pool().Exec(t.Context(), "SELECT millrace.enqueue('mail', $1::json)", items)
		return err
	}
	const known = "group, key, payload, priority, run_at"
	const escapes = `items: must not contain the character \u0000 or half of a surrogate pair`
	for items, want := range map[string]string{
		`{}`:                 "items: must be a JSON array of items",
		`[1,{"payload":1}]`:  "items[0]: must be a JSON object",
		`[{"prority":5}]`:    "items[0].prority: is no field here: the nearest is priority, of " + known,
		`[{"priority":10}]`:  "items[0].priority: must be a number from 0 to 9",
		`[{"priority":"5"}]`: "items[0].priority: must be a number from 0 to 9",
		`[{},{"key":""}]`:    "items[1].key: must be 1 to 255 bytes of UTF-8 without control characters",
		`[{"group":7}]`:      "items[0].group: must be a string",
		`[{"run_at":"infinity"},{"Priority":11,"key":"a\u0007"}]`: "items[0].run_at: must be a time, such as " +
			"2026-02-10T14:30:00Z; items[1].Priority: is no field here: the nearest is priority, of " + known +
			"; items[1].key: must be 1 to 255 bytes of UTF-8 without control characters",
		`[{"payload":"` + strings.Repeat("x", 64<<10) + `"}]`: "items[0].payload: must be at most 65536 bytes of JSON",
		`[{"key":"a\u0000"}]`:    escapes,
		`[{"payload":"\ud800"}]`: escapes,
		`[{"a\u0000":1}]`:        escapes,
	} {
		err := add(items)
		var refused *pgconn.PgError
		if !errors.As(err, &refused) || refused.Code != "22023" ||
			!strings.HasPrefix(refused.Message, "add items to mail: "+want) {
			t.Errorf("%.100s: %v, want %s", items, err, want)
		}
	}
	if err := add(`[{},{"payload":null,"key":"ä","priority":9,"run_at":"2026-02-10 14:30:00+00"},{"key":null}]`); err != nil {
		t.Error(err)
	}
}

// TestSQLAnything: whatever items are, Postgres does not answer in words of its own.
func TestSQLAnything(t *testing.T) {
	s, _ := open(t, func(v *queue.Settings) { v.MaxItems = 1_000_000 })
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	values := []string{
		"null", "true", "7", "-1", "1e400", "9.5", "99999999999999999999", `""`, `"a"`, `"2999-01-01T00:00:00Z"`,
		`"294276-12-31T00:00:00Z"`, `"-infinity"`, `"4714-11-24 BC"`, `"now"`, `"\u0000"`, `"\ud800"`, `[]`, `[[]]`, `{}`,
		`{"a":"\u0000"}`, `"` + strings.Repeat("ä", 128) + `"`, `"\u0085"`, `"` + strings.Repeat("x", 70_000) + `"`,
	}
	members := []string{"payload", "key", "group", "priority", "run_at", "other", "", `\u0000`}
	refusals := 0
	for range 500 {
		var items []string
		for range 1 + rng.IntN(2) {
			var set []string
			for range rng.IntN(3) {
				set = append(set, fmt.Sprintf(`"%s":%s`, members[rng.IntN(len(members))], values[rng.IntN(len(values))]))
			}
			items = append(items, "{"+strings.Join(set, ",")+"}")
		}
		text := "[" + strings.Join(items, ",") + "]"
		if !json.Valid([]byte(text)) {
			t.Fatal(text)
		}
		_, err := s.Queues().Pool().Exec(t.Context(), "SELECT millrace.enqueue('mail', $1::json)", text)
		var refused *pgconn.PgError
		if err != nil && (!errors.As(err, &refused) || refused.Code != "22023" ||
			!strings.HasPrefix(refused.Message, "add items to mail: items")) {
			t.Fatalf("%.200s: %v", text, err)
		}
		if err != nil {
			refusals++
		}
	}
	if refusals < 100 || refusals > 490 {
		t.Errorf("%d of 500 are refused", refusals)
	}
}

// TestSQLNearest: SQL finds the name that Go finds.
func TestSQLNearest(t *testing.T) {
	s, _ := open(t, func(*queue.Settings) {})
	known := []string{"group", "key", "payload", "priority", "run_at"}
	for _, name := range []string{"prority", "Key", "runAt", "run-at", "grp", "x", "", "body", "PAYLOAD", "praylod", "at"} {
		want, _ := nearest.Name(name, known)
		var got string
		err := s.Queues().Pool().QueryRow(t.Context(), "SELECT millrace.nearest_name($1, $2)", name, known).Scan(&got)
		if err != nil || got != want {
			t.Errorf("%q: %s, %v, want %s", name, got, err, want)
		}
	}
}
