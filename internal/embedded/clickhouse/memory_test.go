package clickhouse_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"

	driver "github.com/ClickHouse/clickhouse-go/v2"
)

// greedy takes 8 bytes of memory for each number, and twice as much while it grows.
const greedy = "SELECT length(groupArray(cityHash64(number + %d))) FROM numbers(%d)"

// TestPartsOfInserts: a part as it is inserted has all columns in one file, though it
// has more than the 10 MB from which an engine by itself gives each column its own.
func TestPartsOfInserts(t *testing.T) {
	conn := client(t)
	exec(t, conn, "CREATE TABLE one_file (n UInt64, text String) ENGINE = MergeTree ORDER BY n")
	defer exec(t, conn, "DROP TABLE one_file")
	exec(t, conn, "INSERT INTO one_file SELECT number, repeat('x', 500) FROM numbers(50000)")
	if n := count(t, conn, `SELECT count() FROM system.parts WHERE table = 'one_file' AND active
		AND part_type = 'Compact' AND data_uncompressed_bytes > 20000000`); n != 1 {
		t.Errorf("%d compact parts of 25 MB, want 1", n)
	}
}

// TestGreedyAnalysts: analysts that each take all the memory that they can, at one
// time, do so within one limit, by an error that names the setting. One who writes
// beside them gets through, at the latest when it repeats what an analyst left no
// memory for, and one analyst alone may have half of the memory.
func TestGreedyAnalysts(t *testing.T) {
	s := serveApart(t, t.TempDir(), "serve at length")
	defer s.stop()
	if status, text := s.ask(t, "analyst", fmt.Sprintf(greedy, 0, 16_000_000)); text != "16000000\n" {
		t.Errorf("one analyst: status %d: %s", status, text)
	}
	if status, text := s.ask(t, "default", "CREATE TABLE beside (n UInt64) ENGINE = MergeTree ORDER BY n"); status != http.StatusOK {
		t.Fatal(text)
	}
	before := s.peak(t)
	var all sync.WaitGroup
	const analysts = 4
	for i := range analysts {
		all.Go(func() {
			sql := fmt.Sprintf(greedy, i, 1_000_000_000)
			status, text := s.ask(t, "analyst", sql)
			if status == http.StatusOK || !namesMemory(text) {
				t.Errorf("HTTP: status %d: %s", status, text)
			}
			var e *driver.Exception
			if err := open(t, s.options("analyst")).Exec(testContext(t), sql); !errors.As(err, &e) ||
				!namesMemory(e.Message+e.Error()) {
				t.Errorf("native: %v", err)
			}
		})
	}
	all.Go(func() {
		for i := range 5 {
			sql := fmt.Sprintf("INSERT INTO beside SELECT cityHash64(number) FROM numbers(%d, 2000000)", i)
			status, text := s.ask(t, "default", sql)
			for again := 0; again < 50 && strings.Contains(text, "MEMORY_LIMIT_EXCEEDED"); again++ { // an analyst was faster
				status, text = s.ask(t, "default", sql)
			}
			if status != http.StatusOK {
				t.Errorf("one who writes: status %d: %s", status, text)
			}
		}
	})
	all.Wait()
	// 1 GiB, and what is not counted: about 200 MB, and more with the race detector. Without the common limit the
	// eight statements would take half of 1 GiB each.
	if most, peak := int64(1_600_000_000), s.peak(t); peak > most {
		t.Errorf("the process took %d MB, before the analysts %d MB, want at most %d MB", peak/1e6, before/1e6,
			most/1e6)
	} else {
		t.Logf("the process took %d MB, before the analysts %d MB", peak/1e6, before/1e6)
	}
}

// TestLongStatement: statements that come and go beside one that takes long leave nothing that counts as memory in use. The
// engine forgets a part of what each of them has freed for as long as its user has any other.
func TestLongStatement(t *testing.T) {
	s := serveApart(t, t.TempDir(), "serve at length")
	defer s.stop()
	ctx, cancel := context.WithCancel(testContext(t))
	var long sync.WaitGroup
	long.Go(func() {
		_ = open(t, s.options("default")).Exec(ctx, "SELECT sleepEachRow(1) FROM numbers(3000) "+
			"SETTINGS max_block_size = 1, function_sleep_max_microseconds_per_block = 3600000000")
	})
	defer long.Wait()
	defer cancel()
	for i := range 600 {
		if status, text := s.ask(t, "analyst", "SELECT count() FROM numbers(1000)"); text != "1000\n" {
			t.Fatalf("statement %d: status %d: %s", i, status, text)
		}
	}
	if n := count(t, open(t, s.options("default")), "SELECT count() FROM system.processes WHERE query LIKE 'SELECT sleepEachRow%'"); n != 1 {
		t.Errorf("%d long statements, want 1", n)
	}
}

func namesMemory(text string) bool {
	return strings.Contains(text, "MEMORY_LIMIT_EXCEEDED") && strings.Contains(text, "MILLRACE_CLICKHOUSE_MAX_MEMORY")
}

// TestSpill: what does not fit into an analyst's memory is grouped on disk, up to a
// limit.
func TestSpill(t *testing.T) {
	s := serveApart(t, t.TempDir(), "serve at length")
	defer s.stop()
	const small = "&max_memory_usage=200000000"
	if status, text := s.ask(t, "analyst"+small, "SELECT count(), sum(c) FROM (SELECT cityHash64(number) AS h, "+
		"count() AS c FROM numbers(5000000) GROUP BY h)"); text != "5000000\t5000000\n" {
		t.Errorf("groups on disk: status %d: %s", status, text)
	}
	const disk = "SELECT value FROM system.settings WHERE name = 'max_temporary_data_on_disk_size_for_query'"
	if status, text := s.ask(t, "analyst", disk); text != "1073741824\n" {
		t.Errorf("a statement may put this much on disk: status %d: %s", status, text)
	}
}

// peak is the most memory that the process has held, in bytes.
func (s *served) peak(t *testing.T) int64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.pid))
	if err != nil {
		t.Skip("this system does not tell how much memory a process takes:", err)
	}
	_, rest, _ := strings.Cut(string(text), "VmHWM:")
	kib, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return kib << 10
}
