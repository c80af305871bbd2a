package clickhouse_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	osexec "os/exec"
	"strings"
	"sync"
	"testing"

	ch "github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

// envChild makes this test binary run one round of inserts on the folder that it
// names, in a server and a process of its own.
const envChild = "MILLRACE_TEST_CLICKHOUSE_CHILD"

const dedupTables = `
CREATE TABLE IF NOT EXISTS deduped (n UInt64, month Date, s LowCardinality(String)) ENGINE = MergeTree
	PARTITION BY toYYYYMM(month) ORDER BY n SETTINGS non_replicated_deduplication_window = 1000;
CREATE TABLE IF NOT EXISTS deduped_sums (s String, c UInt64) ENGINE = SummingMergeTree ORDER BY s
	SETTINGS non_replicated_deduplication_window = 1000;
CREATE MATERIALIZED VIEW IF NOT EXISTS deduped_view TO deduped_sums AS SELECT s, count() AS c FROM deduped GROUP BY s`

// insertBatch inserts rows of three partitions, in blocks of 1,000, with token.
func insertBatch(ctx context.Context, conn driver.Conn, token string, first, rows int) error {
	ctx = ch.Context(ctx, ch.WithSettings(ch.Settings{"insert_deduplication_token": token}))
	batch, err := conn.PrepareBatch(ctx, "INSERT INTO deduped")
	if err != nil {
		return err
	}
	for i := range rows {
		month := fmt.Sprintf("2026-%02d-01", i%3+1)
		if err := batch.Append(uint64(first+i), month, fmt.Sprint(i%5)); err != nil {
			return err
		}
		if i%1000 == 999 {
			if err := batch.Flush(); err != nil {
				return err
			}
		}
	}
	return batch.Send()
}

// state is what the tables hold: rows, their sum, and the view's count.
func state(ctx context.Context, conn driver.Conn) (s string, err error) {
	err = conn.QueryRow(ctx, `SELECT concat(toString((SELECT count() FROM deduped)), ' ',
		toString((SELECT sum(n) FROM deduped)), ' ', toString((SELECT sum(c) FROM deduped_sums)))`).Scan(&s)
	return s, err
}

func prepareDedup(ctx context.Context, conn driver.Conn) error {
	for sql := range strings.SplitSeq(dedupTables, ";") {
		if err := conn.Exec(ctx, sql); err != nil {
			return err
		}
	}
	return nil
}

func TestDeduplication(t *testing.T) {
	eachTransport(t, func(t *testing.T, conn driver.Conn) {
		ctx := testContext(t)
		for _, table := range []string{"deduped_view", "deduped", "deduped_sums"} {
			exec(t, conn, "DROP TABLE IF EXISTS "+table)
		}
		if err := prepareDedup(ctx, conn); err != nil {
			t.Fatal(err)
		}
		for _, step := range []struct {
			token       string
			first, rows int
			want        string
		}{
			{"a", 0, 3000, "3000 4498500 3000"},
			{"a", 0, 3000, "3000 4498500 3000"},
			{"b", 0, 3000, "6000 8997000 6000"},
			{"b", 7, 3000, "6000 8997000 6000"}, // the token decides, not the rows
			{"a", 0, 3000, "6000 8997000 6000"},
		} {
			if err := insertBatch(ctx, conn, step.token, step.first, step.rows); err != nil {
				t.Fatal(err)
			}
			if got, err := state(ctx, conn); got != step.want || err != nil {
				t.Errorf("after %s: %s, %v; want %s", step.token, got, err, step.want)
			}
		}
		parts := count(t, conn, "SELECT count() FROM system.parts WHERE database = 'millrace' AND table = 'deduped' "+
			"AND level = 0")
		if parts > 6 {
			t.Errorf("%d parts for two inserts into three partitions", parts)
		}
	})
}

// A process that starts later knows the tokens of one before, be it that it
// stopped or that it was killed.
func TestDeduplicationOverRestarts(t *testing.T) {
	dir := t.TempDir()
	for round, mode := range []string{"stop", "kill", "stop"} {
		cmd := childProcess(t, dir, mode)
		out, err := cmd.CombinedOutput()
		var exit *osexec.ExitError
		if err != nil && !(mode == "kill" && errors.As(err, &exit)) {
			t.Fatalf("round %d: %v\n%s", round, err, out)
		}
		if !strings.Contains(string(out), "6000 8997000 6000\n") {
			t.Errorf("round %d: %s", round, out)
		}
	}
}

func childProcess(t *testing.T, dir, mode string) *osexec.Cmd {
	cmd := osexec.CommandContext(testContext(t), os.Args[0])
	cmd.Env = append(os.Environ(), envChild+"="+dir, "MILLRACE_TEST_MODE="+mode)
	return cmd
}

// A server that stops cancels what runs beyond its grace, and ends well.
func TestStopWhileQueriesRun(t *testing.T) {
	out, err := childProcess(t, t.TempDir(), "busy").CombinedOutput()
	if err != nil || strings.Count(string(out), "cancelled") != 2 {
		t.Errorf("%v\n%s", err, out)
	}
}

// keepBusy starts two queries that do not end, and returns when both run; wait
// returns when both have ended.
func keepBusy(ctx context.Context) (wait func(), err error) {
	conn, err := ch.Open(options(ch.CompressionLZ4))
	if err != nil {
		return nil, err
	}
	var queries sync.WaitGroup
	queries.Go(func() { report(conn.Exec(ctx, fmt.Sprintf(computing, "busy"))) })
	queries.Go(func() {
		resp, err := http.Post("http://"+server.HTTPAddr().String()+"/?user=default&password="+password, "",
			strings.NewReader(fmt.Sprintf(computing, "busy")))
		if err != nil {
			fmt.Println(err)
			return
		}
		defer resp.Body.Close()
		text, _ := io.ReadAll(resp.Body)
		report(errors.New(string(text)))
	})
	var n uint64
	for n != 2 && err == nil {
		err = conn.QueryRow(ctx, "SELECT count() FROM system.processes WHERE position(query, concat('b', 'usy')) > 0").Scan(&n)
	}
	return queries.Wait, err
}

func report(err error) {
	if strings.Contains(err.Error(), "QUERY_WAS_CANCELLED") {
		fmt.Println("cancelled")
	} else {
		fmt.Println(err)
	}
}

func child(dir string) int {
	stop, err := start(dir)
	if err == nil && strings.HasPrefix(os.Getenv("MILLRACE_TEST_MODE"), "serve") {
		return untilStuck(stop)
	}
	wait := func() {}
	if err == nil && os.Getenv("MILLRACE_TEST_MODE") == "busy" {
		wait, err = keepBusy(context.Background())
	} else if err == nil {
		err = round(context.Background())
	}
	if err == nil && os.Getenv("MILLRACE_TEST_MODE") == "kill" {
		self, _ := os.FindProcess(os.Getpid())
		_ = self.Kill()
		select {}
	}
	if err == nil {
		err = stop()
		wait()
	}
	if err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

func round(ctx context.Context) error {
	conn, err := ch.Open(options(ch.CompressionLZ4))
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := prepareDedup(ctx, conn); err != nil {
		return err
	}
	for _, token := range []string{"a", "b"} {
		if err := insertBatch(ctx, conn, token, 0, 3000); err != nil {
			return err
		}
	}
	got, err := state(ctx, conn)
	fmt.Println(got)
	return err
}
