package keystore

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/millrace-io/millrace/internal/slowtest"
)

// known is how many identities the damaged stores of a test hold.
const known = 4000

// filled makes a store with files of every kind, and returns its folder.
func filled(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	s := open(t, dir)
	for at := uint64(1); at <= known; at += 500 {
		foldAll(t, s, at, at+499, at)
		if at == known/2+1 { // the first half rests in a table, the second in the log
			if err := s.db.Flush(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

// foldAll folds the identities from to to, seen at the sequences from at on,
// and returns how many of them are repeated.
func foldAll(t *testing.T, s *Store, from, to, at uint64) int {
	t.Helper()
	repeated, err := s.Fold(sightings(from, to, at), at-1, at+to-from)
	if err != nil {
		t.Fatal(err)
	}
	return len(repeated)
}

func sightings(from, to, at uint64) (all []Sighting) {
	for n := from; n <= to; n++ {
		all = append(all, See(idOf(n), 1, at+n-from))
	}
	return all
}

// TestDamage holds invariant 2 against files that are not what they should be:
// a store that has been damaged says so, at once or when it is read, or still
// knows everything up to the position it names.
func TestDamage(t *testing.T) {
	whole := filled(t)
	files, err := filepath.Glob(filepath.Join(whole, "*"))
	if err != nil || len(files) < 4 {
		t.Fatalf("files %v: %v", files, err)
	}
	told := 0
	for _, file := range slowtest.Sample(files, 5) {
		for name, damage := range damages() {
			what := filepath.Base(file) + " " + name
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			if err := os.CopyFS(dir, os.DirFS(whole)); err != nil {
				t.Fatal(err)
			}
			target := filepath.Join(dir, filepath.Base(file))
			if data, gone := damage(bytes.Clone(data)); gone {
				err = os.Remove(target)
			} else {
				err = os.WriteFile(target, data, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
			if isTold, err := survey(t, dir); err != nil {
				t.Errorf("%s: %v", what, err)
			} else if isTold {
				told++
			}
		}
	}
	if told < slowtest.N(8, 1) {
		t.Errorf("damage was told %d times", told)
	}
}

// survey tells whether a store says that it is damaged; one that does not has
// to be right.
func survey(t *testing.T, dir string) (told bool, err error) {
	s, err := Open(t.Context(), dir, Options{})
	if err != nil {
		return IsDamaged(err), orNil(err)
	}
	defer func() { s.Close() }()
	if s.Applied() > known {
		return false, fmt.Errorf("it names the position %d", s.Applied())
	}
	if s.Applied() < known { // as from the events table
		if _, err := s.Fold(sightings(s.Applied()+1, known, s.Applied()+1), s.Applied(), known); err != nil {
			return IsDamaged(err), orNil(err)
		}
	}
	repeated, err := s.Fold(sightings(1, known, known+1), known, 2*known)
	if err != nil {
		return IsDamaged(err), orNil(err)
	}
	if len(repeated) != known {
		return false, fmt.Errorf("%d of %d identities are forgotten, and nothing is told", known-len(repeated), known)
	}
	return false, nil
}

func orNil(err error) error {
	if IsDamaged(err) {
		return nil
	}
	return err
}

// damages are what may happen to a file: to its content, or that it is gone.
func damages() map[string]func([]byte) ([]byte, bool) {
	flip := func(at func(n int) int) func([]byte) ([]byte, bool) {
		return func(data []byte) ([]byte, bool) {
			if len(data) > 0 {
				data[at(len(data))] ^= 0xff
			}
			return data, false
		}
	}
	return map[string]func([]byte) ([]byte, bool){
		"flipped at its begin":  flip(func(int) int { return 0 }),
		"flipped at a third":    flip(func(n int) int { return n / 3 }),
		"flipped in the middle": flip(func(n int) int { return n / 2 }),
		"flipped at its end":    flip(func(n int) int { return n - 1 }),
		"cut":                   func(data []byte) ([]byte, bool) { return data[:len(data)/2], false },
		"emptied":               func([]byte) ([]byte, bool) { return nil, false },
		"overwritten": func(data []byte) ([]byte, bool) {
			return slices.Repeat([]byte{0xa5}, len(data)),
				false
		},
		"gone": func([]byte) ([]byte, bool) { return nil, true },
	}
}
