package clickhouse

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/embedded/clickhouse/chdb"
	"github.com/millrace-io/millrace/internal/embedded/clickhouse/statement"
)

// sentFrom is an analyst at an address.
func sentFrom(login, addr string) origin { return origin{who: reader, login: login, addr: addr} }

// proofIn is that of a text alone.
func proofIn(from origin, text string) proof {
	return proofOf(from, "millrace", nil, query{Statement: statement.Statement{Text: text}})
}

// book is the penalties of a server that is restarted before each look.
type book struct {
	t    *testing.T
	path string
	now  time.Time
}

func newBook(t *testing.T) *book {
	return &book{t, filepath.Join(t.TempDir(), "penalties.json"), time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
}

func (b *book) open() *penalties {
	b.t.Helper()
	p, err := loadPenalties(b.path)
	if err != nil {
		b.t.Fatal(err)
	}
	p.now = func() time.Time { return b.now }
	return p
}

// note is a statement that has the engine replaced.
func (b *book) note(from origin, text string) {
	b.t.Helper()
	if err := b.open().note(from, text, proofIn(from, text)); err != nil {
		b.t.Fatal(err)
	}
}

// prove is a statement that runs to its end.
func (b *book) prove(from origin, text string) {
	b.t.Helper()
	p := b.open()
	p.prove(from, proofIn(from, text))
	if err := p.write(); err != nil {
		b.t.Fatal(err)
	}
}

// want tells whether a statement has to be refused.
func (b *book) want(when string, from origin, text string, refused bool) {
	b.t.Helper()
	err := b.open().check(from, text, proofIn(from, text))
	var e *chdb.Exception
	if is := errors.As(err, &e) && e.Code == codeQuota; is != refused || err != nil && !is {
		b.t.Errorf("%s: %s of %+v: %v, want refused %t", when, text, from, err, refused)
	}
}

// TestPenalties: a statement that has the engine replaced is refused at once, what
// is new from its address after the second, what is new of its login after the
// third address, each for a growing while and over restarts; nobody else ever is.
func TestPenalties(t *testing.T) {
	b := newBook(t)
	here, there, beyond := sentFrom("analyst", "10.0.0.1"), sentFrom("analyst", "10.0.0.2"), sentFrom("analyst",
		"10.0.0.3")
	expect := func(when string, statement, address, login bool) {
		t.Helper()
		b.want(when, here, "bomb", statement)
		b.want(when, there, "bomb", statement)
		b.want(when, here, "SELECT 1", address)
		b.want(when, sentFrom("analyst", "10.0.0.4"), "SELECT 1", login)
		b.want(when, sentFrom("other", "10.0.0.1"), "bomb", false)
	}
	expect("at first", false, false, false)
	b.note(here, "bomb")
	expect("after one", true, false, false)
	b.now = b.now.Add(9 * time.Minute)
	expect("for 10 min", true, false, false)
	b.now = b.now.Add(2 * time.Minute)
	expect("and no longer", false, false, false)
	b.note(here, "bomb")
	expect("after two", true, true, false)
	b.now = b.now.Add(61 * time.Second)
	expect("a minute later", true, false, false)
	for range 20 {
		b.note(here, "bomb")
	}
	b.now = b.now.Add(59 * time.Minute)
	expect("after many of one address", true, true, false)
	b.now = b.now.Add(2 * time.Minute)
	expect("an hour after many", true, false, false)
	b.note(there, "bomb")
	expect("after the second address", true, false, false)
	b.note(beyond, "bomb")
	expect("after the third address", true, true, true)
	b.now = b.now.Add(61 * time.Second)
	expect("a minute after the third address", true, false, false)
	b.now = b.now.Add(25 * time.Hour)
	b.note(here, "fourth")
	expect("as new after a day", false, false, false)
}

// TestSharedAddress: who shares an address with another one whose statements have
// the engine replaced goes on with what has run to its end before. The other one
// has no way around the penalty: neither a new connection nor another statement,
// setting or parameter, nor what was made to run to its end beforehand.
func TestSharedAddress(t *testing.T) {
	b := newBook(t)
	here, there := sentFrom("analyst", "127.0.0.1"), sentFrom("analyst", "10.0.0.2")
	for _, text := range []string{"dashboard", "time bomb 1", "time bomb 2"} {
		b.prove(here, text)
	}
	b.prove(there, "dashboard")
	b.note(here, "bomb 1")
	b.note(here, "bomb 2")
	b.want("under a penalty", here, "dashboard", false)
	b.want("under a penalty", here, "bomb 3", true)
	b.want("under a penalty", there, "new", false)
	for name, of := range map[string]proof{
		"setting": proofOf(here, "millrace", settings{"max_threads": "1"},
			query{Statement: statement.Statement{Text: "dashboard"}}),
		"parameter": proofOf(here, "millrace", nil, query{
			Statement: statement.Statement{Text: "dashboard"},
			params:    []chdb.Param{{Name: "n", Value: "1"}},
		}),
		"database": proofOf(here, "other", nil, query{Statement: statement.Statement{Text: "dashboard"}}),
	} {
		if b.open().check(here, "dashboard", of) == nil {
			t.Errorf("a known statement with another %s is taken for known", name)
		}
	}
	b.note(here, "time bomb 1")
	b.want("after one that had run before", here, "time bomb 2", true)
	b.want("after one that had run before", there, "dashboard", false)
	b.now = b.now.Add(3 * time.Minute)
	b.want("when the penalty is over", here, "dashboard", false)
}

// TestPenaltiesUnreadable: penalties that cannot be read are none, and the next
// ones are written.
func TestPenaltiesUnreadable(t *testing.T) {
	path := filepath.Join(t.TempDir(), "penalties.json")
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := loadPenalties(path)
	if err == nil || p == nil {
		t.Fatal(p, err)
	}
	from := sentFrom("analyst", "::1")
	if err := p.note(from, "bomb", proof{}); err != nil {
		t.Fatal(err)
	}
	if p, err = loadPenalties(path); err != nil || p.check(from, "bomb", proof{}) == nil {
		t.Error("what is noted then is lost:", err)
	}
}
