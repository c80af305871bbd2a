package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// facts are what a part has, by name: each message, identity or event, and its
// content. The name begins with the store's.
type facts map[string]string

// missing are the stores in which something is missing or other than it was, with
// an example each.
func (f facts) missing(now facts) map[string]string {
	wrong := map[string]string{}
	for name, content := range f {
		store, _, _ := strings.Cut(name, "/")
		switch got, ok := now[name]; {
		case strings.HasSuffix(name, "/"+passed):
			if atoi(got) > atoi(content) {
				wrong[store] = fmt.Sprintf("%s is %s, was %s", name, got, content)
			}
		case !ok:
			wrong[store] = name + " is missing"
		case got != content:
			wrong[store] = fmt.Sprintf("%s is %.80q, was %.80q", name, got, content)
		}
	}
	return wrong
}

func atoi(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0
	}
	return n
}

// finding is what starting a part on its files has shown.
type finding struct {
	Facts facts
	Said  []string // errors and what /health says
	// Refused says that the part does not start. So nobody reads anything wrong.
	Refused bool
}

// part is a kind of store, and how it is opened.
type part interface {
	// name is how flags call it.
	name() string
	// fill writes what there is in dir, and copies it to killed as it is while its
	// owner runs.
	fill(ctx context.Context, dir, killed string) error
	// files are those in a folder that a trial may damage.
	files(dir string) ([]string, error)
	// store is the name under which a file's damage has to be reported.
	store(file string) string
	// open starts what reads a folder, and returns what is in it.
	open(ctx context.Context, dir string) (finding, error)
}

func parts() []part { return []part{natsPart{}, keysPart{}, spoolPart{}} }

// variant is a folder of a part, as it is before a trial.
type variant struct {
	name string // nats, killed
	dir  string
	part part
	want facts
}

// prepared are all folders.
type prepared struct {
	variants []variant
	dir      string // in which trials take place
}

// trial damages one file of one variant.
func (p *prepared) trial(ctx context.Context, seed uint64) (r result, err error) {
	random := rand.New(rand.NewPCG(seed, 27))
	v := p.variants[random.IntN(len(p.variants))]
	dir := filepath.Join(p.dir, "trial")
	if err := os.CopyFS(dir, os.DirFS(v.dir)); err != nil {
		return r, fmt.Errorf("copy %s: %w", v.dir, err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	files, err := v.part.files(dir)
	if err != nil {
		return r, err
	}
	slices.Sort(files)
	file := files[random.IntN(len(files))]
	way, err := damage(random, filepath.Join(dir, file))
	if err != nil {
		return r, err
	}
	r = result{seed: seed, variant: v.name, file: file, way: way}
	found, err := openInSubprocess(ctx, v.part.name(), dir)
	if errors.Is(err, errFills) {
		r.outcome = fills
		return r, nil
	}
	if err != nil {
		return r, err
	}
	var wrong map[string]string
	if !found.Refused {
		wrong = v.want.missing(found.Facts)
	}
	r.judge(v.part.store(file), wrong, found.Said)
	return r, nil
}

// damage flips one bit of a file, or cuts off its end.
func damage(random *rand.Rand, file string) (way string, err error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	if random.IntN(3) == 0 {
		size := random.IntN(len(data))
		return fmt.Sprintf("cut to %d of %d bytes", size, len(data)), os.Truncate(file, int64(size))
	}
	at, bit := random.IntN(len(data)), random.IntN(8)
	data[at] ^= 1 << bit
	return fmt.Sprintf("bit %d of byte %d of %d", bit, at, len(data)), os.WriteFile(file, data, 0o600)
}

// filesOf are the files in a folder that are not empty, relative to it.
func filesOf(dir string) (files []string, err error) {
	err = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		if i, err := e.Info(); err != nil || i.Size() == 0 {
			return err
		}
		name, err := filepath.Rel(dir, path)
		files = append(files, name)
		return err
	})
	return files, err
}

// sort puts the variants in the order in which seeds choose among them.
func (p *prepared) sort() {
	slices.SortFunc(p.variants, func(a, b variant) int { return strings.Compare(a.name, b.name) })
}
