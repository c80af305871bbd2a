package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"
)

// watchedEvery is how often a file comes into the watched place.
const watchedEvery = 3 * time.Second

// watchedPlace has files come into a folder: whole ones, some of which are renamed, copied, or overwritten with another
// content, maybe before they are taken.
type watchedPlace struct {
	dir string
	// Contents that are to be taken once, and others that may have been overwritten before. They are for run, and
	// for whoever has seen it end.
	must, may []int
}

// write writes a file under a name that is left alone, and renames it.
func (p *watchedPlace) write(name string, n int) error {
	part := filepath.Join(p.dir, name+".part")
	if err := os.WriteFile(part, []byte(planOf(n, 0).text()), 0o644); err != nil {
		return err
	}
	return os.Rename(part, filepath.Join(p.dir, name))
}

// run has files come until ctx ends.
func (p *watchedPlace) run(ctx context.Context, seed uint64) error {
	random := rand.New(rand.NewPCG(seed, 81))
	for n := watchedUploads; ctx.Err() == nil; n++ {
		name := fmt.Sprintf("%d.csv", n)
		if err := p.write(name, n); err != nil {
			return err
		}
		wait(ctx, time.Duration(random.Int64N(int64(watchedEvery)))) // it may be taken meanwhile
		var err error
		switch n % 4 {
		case 0:
			p.must = append(p.must, n)
		case 1:
			p.must = append(p.must, n)
			err = os.Rename(filepath.Join(p.dir, name), filepath.Join(p.dir, "renamed-"+name))
		case 2:
			p.must = append(p.must, n)
			err = p.write("again-"+name, n)
		case 3:
			p.may = append(p.may, n)
			n++
			p.must = append(p.must, n)
			err = p.write(name, n)
		}
		if err != nil {
			return err
		}
		wait(ctx, watchedEvery/2)
	}
	return nil
}
