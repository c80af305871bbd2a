package clickhouse

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/millrace-io/millrace/internal/embedded/clickhouse/chdb"
	"github.com/millrace-io/millrace/internal/embedded/clickhouse/statement"
)

// The library has no log of queries, so this package fills system.query_log. The
// table is in the engine's memory and empty after a start; once it is full, its
// oldest rows go.
const (
	logTable = `CREATE TABLE IF NOT EXISTS system.query_log (
	type Enum8('QueryStart' = 1, 'QueryFinish' = 2, 'ExceptionBeforeStart' = 3, 'ExceptionWhileProcessing' = 4),
	event_date Date DEFAULT toDate(event_time_microseconds),
	event_time DateTime DEFAULT toDateTime(event_time_microseconds),
	event_time_microseconds DateTime64(6),
	query_start_time DateTime DEFAULT toDateTime(query_start_time_microseconds),
	query_start_time_microseconds DateTime64(6),
	query_duration_ms UInt64,
	read_rows UInt64, read_bytes UInt64, written_rows UInt64, written_bytes UInt64,
	result_rows UInt64, result_bytes UInt64, memory_usage UInt64,
	query String, query_kind LowCardinality(String),
	normalized_query_hash UInt64 DEFAULT normalizedQueryHash(query),
	exception_code Int32, exception String,
	is_initial_query UInt8 DEFAULT 1,
	user LowCardinality(String), query_id String, address IPv6,
	initial_user LowCardinality(String) DEFAULT user, initial_query_id String DEFAULT query_id,
	initial_address IPv6 DEFAULT address,
	interface UInt8, client_name LowCardinality(String), http_user_agent LowCardinality(String),
	log_comment String, Settings Map(LowCardinality(String), String)
) ENGINE = Memory SETTINGS min_rows_to_keep = 100, max_rows_to_keep = 50000,
	min_bytes_to_keep = 1048576, max_bytes_to_keep = 16777216`

	logSettings = "async_insert = 0, input_format_skip_unknown_fields = 1, input_format_parallel_parsing = 0, " +
		"max_threads = 1, memory_usage_overcommit_max_wait_microseconds = 0"
)

const (
	logWaiting = 1000     // events that wait for the table
	logBytes   = 1 << 20  // of their texts
	logText    = 16 << 10 // of a statement; what is behind that is not logged
	logName    = 1 << 10  // of any other text
)

// Interfaces of clients, as ClickHouse numbers them.
const (
	overNative = 1
	overHTTP   = 2
)

// queryLog has what clients have asked for. Events wait in this process until there
// are many of them, or until somebody asks for the table.
type queryLog struct {
	engine *engine
	log    *slog.Logger

	storing sync.Mutex // guards conn
	conn    *chdb.Conn // nil once the log is closed

	mu      sync.Mutex
	waiting []logEvent
	size    int // of their texts
}

// logEvent is a row of the table.
type logEvent struct {
	Type      string `json:"type"`
	At        string `json:"event_time_microseconds"`
	Began     string `json:"query_start_time_microseconds"`
	Duration  int64  `json:"query_duration_ms"`
	Query     string `json:"query"`
	Kind      string `json:"query_kind"`
	Code      int    `json:"exception_code"`
	Exception string `json:"exception"`
	User      string `json:"user"`
	ID        string `json:"query_id"`
	Address   string `json:"address"`
	Interface int    `json:"interface"`
	Client    string `json:"client_name"`
	UserAgent string `json:"http_user_agent"`
	Comment   string `json:"log_comment"`

	Settings settings `json:"Settings"`
	counts
}

// size is about how many bytes the texts of an event have.
func (e logEvent) size() int {
	n := len(e.Query) + len(e.Exception) + len(e.Comment)
	for name, value := range e.Settings {
		n += len(name) + len(value)
	}
	return n
}

func openQueryLog(e *engine) (*queryLog, error) {
	conn, err := e.lib.Connect("--path=" + e.path)
	if err != nil {
		return nil, fmt.Errorf("open the query log: %w", err)
	}
	l := &queryLog{engine: e, log: e.log, conn: conn}
	for _, sql := range []string{"SET " + logSettings, logTable} {
		if err := conn.Exec(sql); err != nil {
			conn.Close()
			return nil, fmt.Errorf("make the query log: %w", err)
		}
	}
	return l, nil
}

func (l *queryLog) close() {
	l.storing.Lock()
	defer l.storing.Unlock()
	l.conn.Close()
	l.conn = nil
}

// add logs an event. Events of which there are too many for the table to take are
// lost.
func (l *queryLog) add(event logEvent) {
	l.mu.Lock()
	if len(l.waiting) < 4*logWaiting && l.size < 4*logBytes {
		l.waiting = append(l.waiting, event)
		l.size += event.size()
	}
	full := len(l.waiting) >= logWaiting || l.size >= logBytes
	l.mu.Unlock()
	if full && l.storing.TryLock() { // close waits for the lock
		go func() {
			defer l.storing.Unlock()
			l.store()
		}()
	}
}

// flush brings the table up to date.
func (l *queryLog) flush() {
	l.storing.Lock()
	defer l.storing.Unlock()
	l.store()
}

// store moves the events that wait into the table. The log is no reason for a
// statement to fail: events that the engine does not take are lost.
func (l *queryLog) store() {
	l.mu.Lock()
	events := l.waiting
	l.waiting, l.size = nil, 0
	l.mu.Unlock()
	if len(events) == 0 || l.conn == nil {
		return
	}
	if err := l.insert(events); err != nil {
		l.log.Warn("events of ClickHouse's query log are lost", "events", len(events), "error", err)
	}
}

func (l *queryLog) insert(events []logEvent) (err error) {
	rows, err := newSpool(l.engine.spoolDir(), &l.engine.spooled)
	if err != nil {
		return err
	}
	defer rows.close()
	out := json.NewEncoder(rows)
	for _, event := range events {
		if err := out.Encode(event); err != nil {
			return fmt.Errorf("write an event: %w", err)
		}
	}
	insert, err := insertFile(&statement.Insert{Head: "INSERT INTO system.query_log"}, rows.path(), "JSONEachRow", nil)
	if err != nil {
		return err
	}
	return errors.Join(l.conn.Exec(logTable), l.conn.Exec(insert.Text)) // somebody may have dropped it
}

// asked is a statement that a client sends.
type asked struct {
	statement.Statement
	from      origin
	id        string
	settings  settings
	over      int // the interface
	client    string
	userAgent string
}

// logEntry is a statement under way. Its methods do nothing without an entry.
type logEntry struct {
	log   *queryLog
	event logEvent
	began time.Time
	tally *tally // of what it does; may be nil
	ended bool
}

// begin logs that a statement begins. One of the read-write login that names the
// table finds it up to date, and so does whoever asks for it after SYSTEM FLUSH
// LOGS.
func (l *queryLog) begin(q asked, done *tally) *logEntry {
	if q.from.who == writer && (q.Verb == "SYSTEM" || strings.Contains(q.Sent, "query_log")) {
		l.flush()
	}
	if q.settings["log_queries"] == "0" {
		return nil
	}
	addr, err := netip.ParseAddr(q.from.addr)
	if err != nil {
		addr = netip.IPv6Unspecified()
	}
	now := time.Now()
	e := &logEntry{log: l, began: now, tally: done, event: logEvent{
		Type: "QueryStart", At: logTime(now), Began: logTime(now),
		Query: cut(q.Sent, logText), Kind: cut(q.Verb[:1]+strings.ToLower(q.Verb[1:]), logName),
		User: cut(q.from.login, logName), ID: cut(q.id, logName),
		Address: addr.WithZone("").String(), Interface: q.over,
		Client: cut(q.client, logName), UserAgent: cut(q.userAgent, logName),
		Comment: cut(q.settings["log_comment"], logName), Settings: settings{},
	}}
	for name, value := range q.settings {
		if len(e.event.Settings) < 100 {
			e.event.Settings[cut(name, logName)] = cut(value, logName)
		}
	}
	l.add(e.event)
	return e
}

// end logs how the statement has ended. Only the first call counts.
func (e *logEntry) end(err error) {
	if e == nil || e.ended {
		return
	}
	e.ended = true
	now := time.Now()
	e.event.Type, e.event.At, e.event.Duration = "QueryFinish", logTime(now), now.Sub(e.began).Milliseconds()
	if e.tally != nil {
		e.event.counts = e.tally.sum()
	}
	if err != nil {
		known := asException(err)
		e.event.Type = "ExceptionWhileProcessing"
		e.event.Code, e.event.Exception = known.Code, cut(known.Error(), logText)
	}
	e.log.add(e.event)
}

// logTime is a moment in seconds since 1970, with microseconds.
func logTime(at time.Time) string {
	return fmt.Sprintf("%d.%06d", at.Unix(), at.Nanosecond()/1000)
}

func cut(text string, most int) string { return text[:min(len(text), most)] }
