package main

import (
	"bytes"
	"errors"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// rotting is the files of a key store, by name.
type rotting map[string][]byte

// rotKeys damages a projector's key stores while it is down, each in one of
// some ways.
func (c *cluster) rotKeys(p *process, random *rand.Rand) error {
	for _, dir := range c.keys(p) {
		sound, err := readFiles(dir)
		if err != nil {
			return err
		}
		rotten := sound.rot(random, c.kept[dir])
		c.kept[dir] = sound
		if err := rotten.write(dir, sound); err != nil {
			return err
		}
	}
	return nil
}

// rot returns the store as it is after it has been damaged. older is the same
// store some time ago, nil when it is not known.
func (r rotting) rot(random *rand.Rand, older rotting) rotting {
	rotten := maps.Clone(r)
	switch way := random.IntN(6); {
	case way == 0: // a byte of what says which tables there are
		rotten.each(r.named("MANIFEST"), func(data []byte) []byte { return overwrite(random, data, 1) })
	case way == 1: // the end of one file
		rotten.each(r.one(random, ""), func(data []byte) []byte { return data[:random.IntN(len(data)+1)] })
	case way == 2: // a file is gone
		for _, name := range r.one(random, []string{".sst", ".log", "MANIFEST", "marker"}[random.IntN(4)]) {
			delete(rotten, name)
		}
	case way == 3: // two files have each other's names
		kind := []string{".sst", ".sst", ".log", "MANIFEST", ""}[random.IntN(5)]
		a, b := r.one(random, kind), r.one(random, kind)
		if len(a) > 0 && len(b) > 0 {
			rotten[a[0]], rotten[b[0]] = r[b[0]], r[a[0]]
		}
	case way == 4 && older != nil: // some files, or all, as they were
		if random.IntN(3) == 0 {
			return older
		}
		for _, name := range older.names() {
			if random.IntN(2) == 0 {
				rotten[name] = older[name]
			}
		}
	default: // some bytes of half of the files
		for _, name := range r.names() {
			if random.IntN(2) == 0 {
				rotten[name] = overwrite(random, r[name], 1+random.IntN(8))
			}
		}
	}
	return rotten
}

func (r rotting) names() []string { return slices.Sorted(maps.Keys(r)) }

// named are the files with a part in their names.
func (r rotting) named(part string) []string {
	return slices.DeleteFunc(r.names(), func(name string) bool { return !strings.Contains(name, part) })
}

// one is one of those, or none when there are none.
func (r rotting) one(random *rand.Rand, part string) []string {
	names := r.named(part)
	if len(names) == 0 {
		return nil
	}
	return []string{names[random.IntN(len(names))]}
}

func (r rotting) each(names []string, change func([]byte) []byte) {
	for _, name := range names {
		r[name] = change(r[name])
	}
}

func overwrite(random *rand.Rand, data []byte, n int) []byte {
	data = bytes.Clone(data)
	for range n {
		if len(data) > 0 {
			data[random.IntN(len(data))] ^= byte(1 + random.IntN(255))
		}
	}
	return data
}

func readFiles(dir string) (rotting, error) {
	entries, err := os.ReadDir(dir)
	files := rotting{}
	for _, e := range entries {
		if err == nil && e.Type().IsRegular() {
			files[e.Name()], err = os.ReadFile(filepath.Join(dir, e.Name()))
		}
	}
	return files, err
}

// write has a folder hold these files, in place of others.
func (r rotting) write(dir string, before rotting) (err error) {
	for name := range before {
		if _, stays := r[name]; !stays {
			if removed := os.Remove(filepath.Join(dir, name)); !errors.Is(removed, fs.ErrNotExist) {
				err = errors.Join(err, removed)
			}
		}
	}
	for name, data := range r {
		if was, ok := before[name]; !ok || !bytes.Equal(was, data) {
			err = errors.Join(err, os.WriteFile(filepath.Join(dir, name), data, 0o600))
		}
	}
	return err
}
