package main

import (
	"math/rand/v2"
	"os"
	"reflect"
	"testing"
)

// TestRot: a store rots in ways that differ, each of which the folder has
// afterwards; it is sometimes as it was before, with files that it has lost since.
func TestRot(t *testing.T) {
	sound := rotting{
		"MANIFEST-1": []byte("which tables"), "1.sst": []byte("one"), "2.sst": []byte("two"), "3.log": []byte("log"),
		"marker.1": {},
	}
	older := rotting{"MANIFEST-0": []byte("which"), "1.sst": []byte("1")}
	gone, exchanged, before, changed := 0, 0, 0, 0
	for seed := range uint64(300) {
		rotten := sound.rot(rand.New(rand.NewPCG(seed, 1)), older)
		switch _, back := rotten["MANIFEST-0"]; {
		case back || reflect.DeepEqual(rotten, older):
			before++
		case len(rotten) < len(sound):
			gone++
		case string(rotten["1.sst"]) == "two" && string(rotten["2.sst"]) == "one":
			exchanged++
		case !reflect.DeepEqual(rotten, sound):
			changed++
		}
		dir := t.TempDir()
		if err := sound.write(dir, nil); err != nil {
			t.Fatal(err)
		}
		if err := rotten.write(dir, sound); err != nil {
			t.Fatal(err)
		}
		if there, err := readFiles(dir); err != nil || !reflect.DeepEqual(there, rotten) {
			t.Fatalf("there is %q, %v, want %q", there, err, rotten)
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
	}
	if gone == 0 || exchanged == 0 || before == 0 || changed == 0 {
		t.Errorf("%d gone, %d exchanged, %d as before, %d changed", gone, exchanged, before, changed)
	}
}
