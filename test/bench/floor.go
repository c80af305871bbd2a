package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"

	"github.com/millrace-io/millrace/internal/embedded/port"
	schema "github.com/millrace-io/millrace/schemas/clickhouse"
)

// Tables of the floors: the columns of the events table that take no more than
// the event's text for the plain loop, all of them for the lean reader, and in
// neither an index, a sync to disk or a memory of what was inserted before.
var floorTables = map[string]string{
	"plain": `CREATE TABLE plain ENGINE = MergeTree ORDER BY (occurred_at, seq) AS SELECT seq, occurred_at, received_at,
		stage, source_name, service_name, article_url, canonical_url, trace_id, idempotency_key, metadata,
		metadata_schema_version, quality_score, topics, model_version, content_type, channel FROM events LIMIT 0`,
	"lean": `CREATE TABLE lean ENGINE = MergeTree ORDER BY (occurred_at, seq) AS SELECT * FROM events LIMIT 0`,
}

// chPassword is that of the login default of every ClickHouse that is started.
const chPassword = "bench"

func chOptions(addr string) *clickhouse.Options {
	return &clickhouse.Options{Addr: []string{addr}, Auth: clickhouse.Auth{
		Database: "millrace", Username: "default",
		Password: chPassword,
	}}
}

// floor drains the backlog through a consumer that does not deduplicate, roll
// up, or survive a crash, against the same engines.
func (b *bench) floor(ctx context.Context, name string) (r run, err error) {
	data, err := b.filled(ctx)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(data)) }()
	addr, server, err := natsServer(data, 0)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, server.stop()) }()
	ch, chAddr, err := b.clickhouse(ctx, data, name)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, ch.stop()) }()
	return b.drain(ctx, name, partConfig{NATS: addr, ClickHouse: chAddr, Events: b.cfg.events},
		server.Process.Pid, ch.pid())
}

// clickhouse starts the engine alone, with a floor's table.
func (b *bench) clickhouse(ctx context.Context, data, name string) (*program, string, error) {
	addrs, err := port.Reserve(2)
	if err != nil {
		return nil, "", err
	}
	p, err := launch(b.cfg.bin, []string{
		"--log-format=json", "clickhouse", "--data=" + data, "--clickhouse-listen=" + addrs[0],
		"--clickhouse-http=" + addrs[1],
	}, nil)
	if err != nil {
		return nil, "", err
	}
	if err := p.prepare(ctx, addrs[0], name); err != nil {
		return nil, "", errors.Join(err, p.stop())
	}
	return p, addrs[0], nil
}

func (p *program) prepare(ctx context.Context, addr, name string) error {
	db := clickhouse.OpenDB(chOptions(addr))
	defer db.Close()
	for deadline := time.Now().Add(time.Minute); db.PingContext(ctx) != nil; time.Sleep(20 * time.Millisecond) {
		select {
		case <-p.done:
			return p.failure()
		default:
		}
		if time.Now().After(deadline) {
			return errors.New("clickhouse does not answer")
		}
	}
	if err := schema.Migrate(ctx, db); err != nil {
		return err
	}
	if _, err := db.ExecContext(ctx, floorTables[name]); err != nil {
		return fmt.Errorf("make the table: %w", err)
	}
	return nil
}

// drain runs the floor's consumer to its end and looks at what it took.
func (b *bench) drain(ctx context.Context, name string, cfg partConfig, server, ch int) (r run, err error) {
	memory := watch(ch)
	memoryNATS := watch(server)
	natsStart := spentBy(server)
	chStart := spentBy(ch)
	var out bytes.Buffer
	// The lean reader has the program's own setting, the plain loop none.
	env := map[string][]string{"lean": {"GOGC=300"}}[name]
	p, err := start(name, cfg, &out, env...)
	if err != nil {
		return r, err
	}
	memoryConsumer := watch(p.Process.Pid)
	defer context.AfterFunc(ctx, func() { _ = p.input.Close() })()
	err = p.wait()
	natsEnd := spentBy(server)
	chEnd := spentBy(ch)
	r = run{events: cfg.Events, nats: natsEnd - natsStart, clickhouse: chEnd - chStart}
	r.peak.ClickHouse, r.peak.Root = memory.end().Root, memoryConsumer.end().Root+memoryNATS.end().Root
	if err != nil {
		return r, err
	}
	r.consumer = p.ProcessState.UserTime() + p.ProcessState.SystemTime()
	if err := json.Unmarshal(out.Bytes(), &r.seconds); err != nil {
		return r, fmt.Errorf("%q is no number of seconds: %w", out.String(), err)
	}
	return r, countRows(ctx, cfg, name)
}

func countRows(ctx context.Context, cfg partConfig, table string) error {
	db := clickhouse.OpenDB(chOptions(cfg.ClickHouse))
	defer db.Close()
	var rows int
	if err := db.QueryRowContext(ctx, "SELECT count() FROM "+table).Scan(&rows); err != nil {
		return fmt.Errorf("count the rows: %w", err)
	}
	if rows != cfg.Events {
		return fmt.Errorf("%d rows of %d events", rows, cfg.Events)
	}
	return nil
}
