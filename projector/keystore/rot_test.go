package keystore

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/millrace-io/millrace/internal/slowtest"
	"github.com/millrace-io/millrace/schemas/checkpoint"
)

// folder is the files of a store.
type folder map[string][]byte

func (f folder) with(name string, data []byte) folder {
	changed := maps.Clone(f)
	if changed[name] = data; data == nil {
		delete(changed, name)
	}
	return changed
}

func (f folder) names() []string { return slices.Sorted(maps.Keys(f)) }

// keysDir is where a folder is in a file system in memory.
const keysDir = "keys"

func (f folder) files(t *testing.T) vfs.FS {
	t.Helper()
	files := vfs.NewMem()
	must(t, files.MkdirAll(keysDir, 0o755))
	for name, data := range f {
		file, err := files.Create(files.PathJoin(keysDir, name), vfs.WriteCategoryUnspecified)
		must(t, err)
		_, err = file.Write(data)
		must(t, err)
		must(t, file.Close())
	}
	return files
}

func folderOf(t *testing.T, files vfs.FS) folder {
	t.Helper()
	f := folder{}
	names, err := files.List(keysDir)
	must(t, err)
	for _, name := range names {
		file, err := files.Open(files.PathJoin(keysDir, name))
		if errors.Is(err, fs.ErrNotExist) { // removed since, in the background
			continue
		}
		must(t, err)
		info, err := file.Stat()
		must(t, err)
		data := make([]byte, info.Size())
		if len(data) > 0 {
			_, err = file.ReadAt(data, 0)
			must(t, err)
		}
		must(t, file.Close())
		f[name] = data
	}
	return f
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// little memory makes stores open quickly.
var little = Options{CacheBytes: 1 << 20, MemTableBytes: 256 << 10}

// rotted is how many identities the stores have that rot.
const rotted = 1500

// aged are the folders of one store at the ends of its three lives and in
// between, the last one being as it is left. Its history is merged into one
// table in the second life or not at all.
func aged(t *testing.T, merged bool) (older []folder, last folder) {
	t.Helper()
	files := vfs.NewMem()
	for life := range uint64(3) {
		s, err := openIn(t.Context(), files, keysDir, little)
		must(t, err)
		for at := life*500 + 1; at <= life*500+500; at += 100 {
			foldAll(t, s, at, at+99, at)
			if older = append(older, folderOf(t, files)); life == 0 && at == 201 || life == 2 && at > 1001 &&
				at < 1401 {
				must(t, s.db.Flush())
			}
		}
		if merged && life == 1 {
			must(t, s.db.Compact(t.Context(), []byte{0}, bytes.Repeat([]byte{0xff}, 17), false))
		}
		must(t, s.Close())
		older = append(older, folderOf(t, files))
	}
	return older[:len(older)-1], older[len(older)-1]
}

// outcome is what has come of a damaged store.
type outcome int

const (
	noticed outcome = iota // it says that it can't be believed
	whole                  // it knows everything up to its position
)

// judge brings a store to the checkpoint's position as a projector does, and
// holds it to the truth: of the identities up to there it knows all, or says
// that it can't be believed.
func judge(t *testing.T, f folder, checkpoint uint64) (outcome, error) {
	s, err := openIn(t.Context(), f.files(t), keysDir, little)
	if err != nil {
		return noticed, orNil(err)
	}
	defer func() { s.Close() }()
	if at := s.Applied(); at < checkpoint {
		if err := s.Fill(sightings(at+1, checkpoint, at+1), checkpoint); err != nil {
			return noticed, orNil(err)
		}
	}
	known, err := s.Known(checkpoint)
	if err != nil || known != sumOf(1, checkpoint) {
		return noticed, orNil(err)
	}
	found, err := s.compare(sorted(sightings(1, checkpoint, rotted+1)), s.db.NewBatch(), false)
	if err != nil {
		return noticed, orNil(err)
	}
	if n := uint64(len(found.repeats)); n != checkpoint {
		return whole, fmt.Errorf("%d of %d identities are forgotten in silence", checkpoint-n, checkpoint)
	}
	return whole, nil
}

func sorted(all []Sighting) []Sighting {
	for i := range all {
		all[i].row = int32(i)
	}
	slices.SortFunc(all, byIdentity)
	return all
}

func sumOf(from, to uint64) (sum checkpoint.Sum) {
	for _, s := range sightings(from, to, from) {
		sum.Add(s.hi, s.lo)
	}
	return sum
}

// trial is one way to damage a store.
type trial struct {
	what string
	folder
}

// thorough tells whether every byte is tried: it takes some minutes.
func thorough() bool { return os.Getenv("MILLRACE_KEYS_FULL") != "" }

// TestRot holds that no store forgets in silence: each byte of each file is
// changed, each file is cut at each length, taken away, replaced by each other
// one and by each older version of itself, exchanged with another one, and the
// whole folder is an older one. A part of all this is tried, drawn by
// MILLRACE_KEYS_SEED or the time; MILLRACE_KEYS_FULL has all tried.
func TestRot(t *testing.T) {
	slowtest.Mark(t)
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("MILLRACE_KEYS_SEED"); text != "" {
		var err error
		seed, err = strconv.ParseUint(text, 10, 64)
		must(t, err)
	}
	t.Logf("seed %d", seed)
	for name, merged := range map[string]bool{"three lives": false, "merged in the second": true} {
		t.Run(name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 1))
			older, last := aged(t, merged)
			if is, err := judge(t, last, rotted); is != whole || err != nil {
				t.Fatalf("the store as it was left: %v, %v", is, err)
			}
			tried, told := map[string]int{}, map[string]int{}
			for kind, trials := range map[string]func(func(trial)){
				"changed":   func(try func(trial)) { change(rng, last, try) },
				"cut":       func(try func(trial)) { cut(rng, last, try) },
				"gone":      func(try func(trial)) { remove(last, try) },
				"exchanged": func(try func(trial)) { exchange(last, try) },
				"older":     func(try func(trial)) { restore(rng, older, last, try) },
			} {
				trials(func(c trial) {
					checkpoint := uint64(rotted)
					if rng.IntN(4) == 0 { // it has not been written yet for the last batch
						checkpoint -= 100
					}
					is, err := judge(t, c.folder, checkpoint)
					if err != nil {
						t.Errorf("%s, checkpoint at %d: %v", c.what, checkpoint, err)
					}
					if tried[kind]++; is == noticed {
						told[kind]++
					}
				})
				if told[kind] == 0 {
					t.Errorf("none that was %s is noticed", kind)
				}
			}
			t.Logf("tried %v, of which noticed %v", tried, told)
		})
	}
}

// places are the offsets of a file that are tried. What says which tables there
// are is tried most.
func places(rng *rand.Rand, name string, size int) []int {
	most := 6
	if strings.HasPrefix(name, "MANIFEST") || strings.HasPrefix(name, "marker") {
		most = 80
	}
	if thorough() {
		most = size
	}
	return rng.Perm(size)[:min(size, most)]
}

func change(rng *rand.Rand, f folder, try func(trial)) {
	for _, name := range f.names() {
		for _, at := range places(rng, name, len(f[name])) {
			data := bytes.Clone(f[name])
			data[at] ^= byte(1 + rng.IntN(255))
			try(trial{fmt.Sprintf("%s with byte %d changed to %02x", name, at, data[at]), f.with(name, data)})
		}
	}
}

func cut(rng *rand.Rand, f folder, try func(trial)) {
	for _, name := range f.names() {
		for _, length := range places(rng, name, len(f[name])) {
			try(trial{fmt.Sprintf("%s cut to %d bytes", name, length), f.with(name, f[name][:length:length])})
		}
	}
}

// remove takes away one file, or two.
func remove(f folder, try func(trial)) {
	for i, a := range f.names() {
		try(trial{a + " gone", f.with(a, nil)})
		for _, b := range f.names()[i+1:] {
			try(trial{a + " and " + b + " gone", f.with(a, nil).with(b, nil)})
		}
	}
}

// exchange gives files each other's names, or one the content of another.
func exchange(f folder, try func(trial)) {
	for _, a := range f.names() {
		for _, b := range f.names() {
			if a < b {
				try(trial{a + " and " + b + " exchanged", f.with(a, f[b]).with(b, f[a])})
			}
			if a != b {
				try(trial{a + " with the content of " + b, f.with(a, f[b])})
			}
		}
	}
}

// restore takes older versions of single files, of two and of all.
func restore(rng *rand.Rand, older []folder, f folder, try func(trial)) {
	for i, old := range older {
		try(trial{fmt.Sprintf("all as at %d", i), old})
		both := maps.Clone(f)
		maps.Copy(both, old)
		try(trial{fmt.Sprintf("all as at %d, and what came since", i), both})
		names := old.names()
		for _, a := range names {
			if !thorough() && rng.IntN(3) > 0 {
				continue
			}
			try(trial{fmt.Sprintf("%s as at %d", a, i), f.with(a, old[a])})
			b := names[rng.IntN(len(names))]
			try(trial{fmt.Sprintf("%s and %s as at %d", a, b, i), f.with(a, old[a]).with(b, old[b])})
			try(trial{fmt.Sprintf("all as at %d but %s", i, a), old.with(a, f[a])})
		}
	}
}
