package projector_test

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
)

// TestDamagedKeys holds invariant 2 when the key store's files rot: whether it
// is found when the store is opened or only when it is read, the store is put
// aside and filled again, and no repeat counts.
func TestDamagedKeys(t *testing.T) {
	for pattern, where := range map[string]string{
		"*.sst":      "found when it is read",
		"MANIFEST-*": "found when it is opened",
	} {
		t.Run(where, func(t *testing.T) {
			b := newBench(t)
			rng := rand.New(rand.NewPCG(3, 1))
			var sent [][2]string
			for range 2 { // opened again, the store writes what is in its log to a table
				stop := b.start(nil)
				b.history(rng, 200, &sent)
				b.reach(b.truth.last)
				stop()
			}
			b.rot(pattern)
			stop := b.start(nil)
			for _, m := range sent {
				b.publish(m[0], []byte(m[1]))
			}
			b.reach(b.truth.last)
			stop()
			b.check()
			if aside, _ := filepath.Glob(b.dir + "/keys.damaged-*"); len(aside) != 1 {
				t.Errorf("put aside: %v", aside)
			}
		})
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
