package pipeline_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/slowtest"
	"github.com/millrace-io/millrace/projector/pipeline"
)

// TestDamagedKeys holds invariant 2 when the key store's files rot: whether it
// is found when the store is opened or only when it is read, the store goes to
// quarantine and is filled again, and no repeat counts.
func TestDamagedKeys(t *testing.T) {
	slowtest.Mark(t)
	for pattern, where := range map[string]string{
		"*.sst":      "found when it is read",
		"MANIFEST-*": "found when it is opened",
	} {
		t.Run(where, func(t *testing.T) {
			b := newBench(t)
			rng := rand.New(rand.NewPCG(3, 1))
			var sent [][2]string
			for range 2 { // opened again, the store writes what is in its log to a table
				b.lives(rng, 200, &sent)
			}
			b.outlivesRot(pattern, sent)
		})
	}
}

// TestDamageWhileFilling holds invariant 2 when the rot is found while the store
// is filled with what others have counted meanwhile.
func TestDamageWhileFilling(t *testing.T) {
	pipeline.FillRows(t, 10)
	b := newBench(t)
	rng := rand.New(rand.NewPCG(4, 1))
	var sent [][2]string
	for i := range 3 { // opened again, the store writes what is in its log to a table
		b.lives(rng, 200, &sent)
		if i == 1 {
			must(t, os.CopyFS(b.dir+"/older", os.DirFS(b.dir+"/keys")))
		}
	}
	must(t, os.RemoveAll(b.dir+"/keys"))
	must(t, os.Rename(b.dir+"/older", b.dir+"/keys"))
	b.outlivesRot("*.sst", sent)
}

// TestQuarantine: of the damaged key stores of a group the newest is kept for a
// while, and no other one, once the group is folded again.
func TestQuarantine(t *testing.T) {
	b := newBench(t)
	quarantined := func(age time.Duration) string {
		return fmt.Sprintf("%s/keys.damaged-%d", b.dir, time.Now().Add(-age).UnixNano())
	}
	newest, others := quarantined(time.Hour), []string{b.dir + "/keys-1.damaged-1", b.dir + "/keys.damaged-by-hand"}
	for _, dir := range append(others, quarantined(time.Hour+time.Minute), newest, quarantined(8*24*time.Hour)) {
		must(t, os.MkdirAll(dir+"/files", 0o700))
	}
	rng, sent := rand.New(rand.NewPCG(5, 1)), [][2]string{}
	left := func() []string {
		b.lives(rng, 10, &sent)
		found, err := filepath.Glob(b.dir + "/*.damaged-*")
		must(t, err)
		return found
	}
	want := []string{others[0], newest, others[1]}
	if got := left(); !slices.Equal(got, want) {
		t.Errorf("left are %v, want %v", got, want)
	}
	must(t, os.Rename(newest, quarantined(8*24*time.Hour)))
	if got := left(); !slices.Equal(got, others) {
		t.Errorf("after a week, left are %v", got)
	}
}

// lives runs a projector until it has folded n more messages.
func (b *bench) lives(rng *rand.Rand, n int, sent *[][2]string) {
	b.t.Helper()
	stop := b.start(nil)
	b.history(rng, n, sent)
	b.reach(b.truth.last)
	stop()
}

// outlivesRot has files of the key store rot and publishes all again: the store
// goes to quarantine, and no repeat counts.
func (b *bench) outlivesRot(pattern string, sent [][2]string) {
	b.t.Helper()
	b.rot(pattern)
	stop := b.start(nil)
	for _, m := range sent {
		b.publish(m[0], []byte(m[1]))
	}
	b.reach(b.truth.last)
	stop()
	b.check()
	if found, _ := filepath.Glob(b.dir + "/keys.damaged-*"); len(found) != 1 {
		b.t.Errorf("in quarantine: %v", found)
	}
}

// rot overwrites the middle of files of the key store.
func (b *bench) rot(pattern string) {
	b.t.Helper()
	files, err := filepath.Glob(filepath.Join(b.dir, "keys", pattern))
	must(b.t, err)
	if len(files) == 0 {
		b.t.Fatalf("there is no %s", pattern)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		must(b.t, err)
		for i := len(data) / 4; i < len(data)/2; i++ {
			data[i] ^= 0xff
		}
		must(b.t, os.WriteFile(file, data, 0o600))
	}
}
