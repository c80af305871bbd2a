package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestMarkdown: a report replaces the table of the benchmarks page, names
// machine, date and commit, and leaves the rest of the page alone.
func TestMarkdown(t *testing.T) {
	const page = "../../docs/benchmarks.md"
	before, after, err := splitPage(page)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "page.md")
	if err := os.WriteFile(file, text, 0o644); err != nil {
		t.Fatal(err)
	}
	r := report{
		Machine: machine{
			CPU: "Some CPU", Cores: 2, Memory: 25, Kernel: "6.1", Go: "go1.26", Commit: "abc1234",
			Date: "2026-11-22",
		}, Events: 1_000_000, Runs: 3,
		Lines: summarize([][]line{
			{
				{"backlog", "folded", "events/s", more, 90_000, "plain loop", 100_000},
				{"backlog", "", "events/s", more, 90_000, "lean", 200_000},
				{"work", "idle", "MB", less, 5, "", 0},
			},
			{
				{"backlog", "folded", "events/s", more, 80_000, "plain loop", 100_000},
				{"backlog", "", "events/s", more, 80_000, "lean", 200_000},
				{"work", "idle", "MB", less, 7, "", 0},
			},
			{
				{"backlog", "folded", "events/s", more, 85_000, "plain loop", 100_000},
				{"backlog", "", "events/s", more, 85_000, "lean", 200_000},
				{"work", "idle", "MB", less, 6, "", 0},
			},
		}),
	}
	for range 2 { // the second time over its own
		if err := r.intoPage(file); err != nil {
			t.Fatal(err)
		}
	}
	const want = "Some CPU, 2 cores, 25 GB, Linux 6.1, go1.26, 2026-11-22, commit `abc1234`.\n" +
		"1,000,000 events, medians of 3 runs (lowest to highest).\n\n" +
		"| backlog | figure | compared with | ratio |\n|---|---|---|---|\n" +
		"| folded | 85,000 events/s (80,000 to 90,000) | plain loop: 100,000 events/s | 0.85 |\n" +
		"|  |  | lean: 200,000 events/s | 0.42 |\n\n" +
		"| work | figure | compared with | ratio |\n|---|---|---|---|\n" +
		"| idle | 6.00 MB (5.00 to 7.00) |  |  |\n"
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != before+pageBegin+want+pageEnd+after {
		t.Errorf("the page has become\n%s", got)
	}
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(string(text), pageEnd, "")), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := r.intoPage(file); err == nil {
		t.Error("a page without the mark of the end is written to")
	}
}
