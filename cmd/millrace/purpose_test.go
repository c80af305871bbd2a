package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestClaim: a data folder has one purpose for good, and one that is not marked
// is never the demonstration's unless it is empty.
func TestClaim(t *testing.T) {
	for _, tc := range []struct {
		name   string
		marked purpose // before; empty: not
		filled bool
		want   purpose
		fails  string
	}{
		{"an empty folder for events", "", false, ownEvents, ""},
		{"an empty folder for the demonstration", "", false, demonstration, ""},
		{"a folder of an older release", "", true, ownEvents, ""},
		{"a filled folder for the demonstration", "", true, demonstration, "--no-demo"},
		{"events again", ownEvents, true, ownEvents, ""},
		{"the demonstration again", demonstration, true, demonstration, ""},
		{"events into the demonstration", demonstration, true, ownEvents, "set MILLRACE_DATA"},
		{"the demonstration into events", ownEvents, true, demonstration, "--no-demo"},
	} {
		dir := t.TempDir()
		if tc.filled {
			if err := os.Mkdir(filepath.Join(dir, "nats"), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if tc.marked != "" {
			if err := os.WriteFile(filepath.Join(dir, purposeFile), []byte(tc.marked+"\n"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		unlock, err := lockData(dir, tc.want)
		if tc.fails != "" {
			if err == nil || !strings.Contains(err.Error(), tc.fails) {
				t.Errorf("%s: %v, want an error that says %q", tc.name, err, tc.fails)
			}
			if is, _ := purposeOf(dir); is != tc.marked {
				t.Errorf("%s: the folder is marked %q now", tc.name, is)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", tc.name, err)
			continue
		}
		unlock()
		if is, err := purposeOf(dir); is != tc.want || err != nil {
			t.Errorf("%s: the folder is marked %q, %v", tc.name, is, err)
		}
	}
}
