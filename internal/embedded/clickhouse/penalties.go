package clickhouse

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
)

// penalties keep analysts from having the engine replaced over and over. They
// outlive the process in a file: that is what a replacement ends.
//
//   - A statement that the engine did not end is refused for 10 min, twice as long
//     each time.
//   - From the second one of an address on, the address is under a penalty for a
//     minute, and from the third address on the login is, each time twice as long,
//     up to an hour.
//   - Many people can share an address, as they do on loopback, and nothing that
//     tells them apart is out of their own hands. So a penalty of an address or a
//     login refuses what is new: a statement that has run to its end before, from
//     the same address, with the same settings and parameters, runs all the same.
//   - Should the engine not end such a statement, nothing of its address counts as
//     having run before. Statements can be made to run to their end up to a time.
//
// A day without another one clears all penalties.
type penalties struct {
	path string
	now  func() time.Time

	mu     sync.Mutex
	all    map[string]penalty
	proven *lru.Cache[proof, string] // the addresses of statements that have run to their end
}

// maxProven bounds the statements that are known to have run to their end.
const maxProven = 4096

// proof stands for a statement with all that decides how it runs, and for who
// sent it.
type proof [16]byte

func proofOf(from origin, database string, set settings, q query) proof {
	sum := sha256.New()
	part := func(text string) { fmt.Fprintf(sum, "%d:%s", len(text), text) }
	for _, text := range []string{from.login, from.addr, database, q.Text} {
		part(text)
	}
	for _, own := range []settings{set, q.settings} {
		part(strconv.Itoa(len(own)))
		for _, name := range slices.Sorted(maps.Keys(own)) {
			part(name)
			part(own[name])
		}
	}
	for _, param := range q.params {
		part(param.Name)
		part(param.Value)
	}
	return proof(sum.Sum(nil)[:16])
}

type penalty struct {
	Times int       `json:"times"`
	Last  time.Time `json:"last"`
	Until time.Time `json:"until"`
}

// rule says from which time on a penalty holds, and for how long.
type rule struct {
	first      int
	base, most time.Duration
}

var (
	statementRule = rule{1, 10 * time.Minute, 24 * time.Hour}
	addressRule   = rule{2, time.Minute, time.Hour}
	loginRule     = rule{3, time.Minute, time.Hour} // of addresses
)

const penaltyMemory = 24 * time.Hour

// span is how long the penalty of the n-th time lasts.
func (r rule) span(n int) time.Duration {
	if n < r.first {
		return 0
	}
	span := r.base
	for ; n > r.first && span < r.most; n-- {
		span *= 2
	}
	return min(span, r.most)
}

// penaltyFile is how penalties are on disk.
type penaltyFile struct {
	Penalties map[string]penalty `json:"penalties"`
	Proven    map[string]string  `json:"proven"` // addresses by proofs, in hexadecimal digits
}

// loadPenalties reads the file at path. If it cannot be read, the penalties begin
// anew.
func loadPenalties(path string) (*penalties, error) {
	proven, _ := lru.New[proof, string](maxProven) // which fails without a size alone
	p := &penalties{path: path, now: time.Now, all: map[string]penalty{}, proven: proven}
	text, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return p, nil
	}
	var file penaltyFile
	if err == nil {
		err = json.Unmarshal(text, &file)
	}
	if err != nil {
		return p, fmt.Errorf("read penalties of statements: %w", err)
	}
	maps.Copy(p.all, file.Penalties)
	for digits, address := range file.Proven {
		var of proof
		if n, err := hex.Decode(of[:], []byte(digits)[:min(len(digits), 2*len(of))]); err == nil && n == len(of) {
			p.proven.Add(of, address)
		}
	}
	return p, nil
}

// Keys of penalties.
func statementKey(from origin, text string) string {
	sum := sha256.Sum256([]byte(from.login + "\x00" + text))
	return "statement " + hex.EncodeToString(sum[:16])
}

func addressKey(from origin) string { return "address " + from.login + "@" + from.addr }

func loginKey(from origin) string { return "login " + from.login }

// check refuses a statement under a penalty.
func (p *penalties) check(from origin, text string, of proof) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	if until := p.all[statementKey(from, text)].Until; now.Before(until) {
		return refused("This statement has had the engine replaced, and is refused until %s", until)
	}
	if p.proven.Contains(of) {
		return nil
	}
	if until := p.all[addressKey(from)].Until; now.Before(until) {
		return refused("Statements from this address have had the engine replaced: until %s"+onlyProven, until)
	}
	if until := p.all[loginKey(from)].Until; now.Before(until) {
		return refused("Statements of this login have had the engine replaced: until %s"+onlyProven, until)
	}
	return nil
}

const onlyProven = " only those run that have run to their end before; docs/statement-limits.md has the rule"

func refused(format string, until time.Time) error {
	return exception(codeQuota, "QUOTA_EXCEEDED", format, until.UTC().Format(time.RFC3339))
}

// prove notes a statement that has run to its end.
func (p *penalties) prove(from origin, of proof) { p.proven.Add(of, addressKey(from)) }

// note records a statement that the engine did not end.
func (p *penalties) note(from origin, text string, of proof) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.forget()
	if p.proven.Contains(of) {
		for _, other := range p.proven.Keys() {
			if address, _ := p.proven.Peek(other); address == addressKey(from) {
				p.proven.Remove(other)
			}
		}
	}
	_, before := p.all[addressKey(from)]
	p.add(statementKey(from, text), statementRule)
	p.add(addressKey(from), addressRule)
	if !before {
		p.add(loginKey(from), loginRule)
	}
	return p.write()
}

// forget drops the penalties of which nothing has been heard for long.
func (p *penalties) forget() {
	now := p.now()
	for key, known := range p.all {
		if now.Sub(known.Last) > penaltyMemory && now.After(known.Until) {
			delete(p.all, key)
		}
	}
}

func (p *penalties) add(key string, by rule) {
	now, times := p.now(), p.all[key].Times+1
	p.all[key] = penalty{Times: times, Last: now, Until: now.Add(by.span(times))}
}

// save writes the file, where it is of any use.
func (p *penalties) save() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.all) == 0 {
		return nil
	}
	return p.write()
}

func (p *penalties) write() error {
	file := penaltyFile{Penalties: p.all, Proven: map[string]string{}}
	for _, of := range p.proven.Keys() {
		if address, known := p.proven.Peek(of); known {
			file.Proven[hex.EncodeToString(of[:])] = address
		}
	}
	text, err := json.Marshal(file)
	if err != nil {
		return fmt.Errorf("write penalties of statements: %w", err)
	}
	next := p.path + ".new"
	if err := os.WriteFile(next, text, 0o600); err != nil {
		return fmt.Errorf("write penalties of statements: %w", err)
	}
	if err := os.Rename(next, p.path); err != nil {
		return fmt.Errorf("write penalties of statements: %w", err)
	}
	return nil
}
