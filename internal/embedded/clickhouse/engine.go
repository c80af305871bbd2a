package clickhouse

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace-io/millrace/internal/embedded/clickhouse/chdb"
	"github.com/millrace-io/millrace/internal/embedded/clickhouse/judge"
)

// engine is the running ClickHouse engine of this process.
type engine struct {
	cfg      Config
	lib      *chdb.Library
	path     string
	name     string // that clients are shown
	database string
	timezone string
	version  [3]int
	rules    *judge.Rules // of the read-only login
	analyst  string       // its name
	memory   string       // what its limit of memory is a part of
	queries  atomic.Uint64
	spooled  atomic.Int64 // bytes of inserts in memory

	log       *slog.Logger
	patience  time.Duration // within which a cancelled statement has to end
	penalties *penalties
	queryLog  *queryLog
	stuck     chan error // has why the engine has to be replaced
	kept      []any      // of statements that were left behind; mu guards it
	killer    killer
	watched   watched

	// control runs what belongs to no client. Open as long as the engine: its
	// closing stops it.
	mu      sync.Mutex
	control *chdb.Conn
}

// sessionSettings hold for every session.
//
// Inserts are exact: one client insert is one block, written when it is
// answered. A statement needs its keyword, as on a server. Files are read, not
// mapped: one that shrinks meanwhile would kill the process.
const sessionSettings = "async_insert = 0, implicit_select = 0, allow_introspection_functions = 0, " +
	"max_insert_threads = 1, deduplicate_insert = 'enable', insert_deduplicate = 1, " +
	"deduplicate_blocks_in_dependent_materialized_views = 1, storage_file_read_method = 'pread'"

func openEngine(cfg Config, log *slog.Logger) (*engine, error) {
	path, err := filepath.Abs(cfg.Path)
	if err != nil {
		return nil, fmt.Errorf("resolve data folder %s: %w", cfg.Path, err)
	}
	// Without a folder of metadata the engine does not start what removes dropped
	// tables (https://github.com/chdb-io/chdb-core/pull/173): DROP … SYNC of a new
	// data folder would wait for it for ever.
	if err := os.MkdirAll(filepath.Join(path, "metadata"), 0o700); err != nil {
		return nil, fmt.Errorf("make data folder %s: %w", path, err)
	}
	lib, err := chdb.Load(cfg.Library)
	if err != nil {
		return nil, err
	}
	e := &engine{
		cfg: cfg, lib: lib, path: path, name: cfg.Name, memory: cfg.MemorySetting, database: cfg.Database,
		analyst: cfg.ReadOnlyUser,
		log:     log, patience: cfg.Patience, stuck: make(chan error, 1),
	}
	e.killer.kill = e.kill
	if e.penalties, err = loadPenalties(filepath.Join(path, "penalties.json")); err != nil {
		log.Warn("no statement is refused on account of earlier ones", "error", err)
	}
	profile, err := profileArgs(path, cfg)
	if err != nil {
		return nil, err
	}
	if e.control, err = lib.Connect(slices.Concat(engineArgs(path, cfg.MaxMemory), profile, clusterArgs(cfg))...); err != nil {
		return nil, fmt.Errorf("open data folder %s (is another process using it?): %w", path, err)
	}
	if err := e.prepare(); err != nil {
		e.control.Close()
		return nil, err
	}
	log.Info("ClickHouse engine started", "path", path, "version", e.version)
	return e, nil
}

// engineArgs are server settings for a small machine: few threads that wait, and
// caches that fit. Parts that were merged are removed by one thread: some two hundred at
// a time, and by default by up to 128 threads, for which all others would wait.
func engineArgs(path string, memory int64) []string {
	args := []string{"--path=" + path}
	for name, value := range map[string]int64{
		"max_server_memory_usage":             memory,
		"mark_cache_size":                     memory / 16,
		"primary_index_cache_size":            memory / 16,
		"index_mark_cache_size":               memory / 64,
		"uncompressed_cache_size":             0,
		"index_uncompressed_cache_size":       0,
		"mmap_cache_size":                     100,
		"query_condition_cache_size":          memory / 64,
		"compiled_expression_cache_size":      memory / 64,
		"background_pool_size":                2,
		"background_move_pool_size":           1,
		"background_fetches_pool_size":        1,
		"background_common_pool_size":         2,
		"background_schedule_pool_size":       8,
		"max_parts_cleaning_thread_pool_size": 1,
		"max_thread_pool_size":                500,
		"max_thread_pool_free_size":           16,
		"max_io_thread_pool_size":             16,
		"max_io_thread_pool_free_size":        0,
	} {
		args = append(args, "--"+name+"="+strconv.FormatInt(value, 10))
	}
	return args
}

// spoolDir is for inserts that do not fit into memory.
func (e *engine) spoolDir() string { return filepath.Join(e.path, "spool") }

func (e *engine) prepare() error {
	// What is there was left by a process that was killed: the engine's lock
	// keeps others out of the folder.
	if err := os.RemoveAll(e.spoolDir()); err != nil {
		return fmt.Errorf("clear spool: %w", err)
	}
	if err := os.Mkdir(e.spoolDir(), 0o700); err != nil {
		return fmt.Errorf("make spool: %w", err)
	}
	if err := e.control.Exec("CREATE DATABASE IF NOT EXISTS " + e.database); err != nil {
		return fmt.Errorf("create database %s: %w", e.database, err)
	}
	row, err := e.control.Query("SELECT timezone(), version()", "TSV")
	if err != nil {
		return fmt.Errorf("ask the engine's version: %w", err)
	}
	zone, version, _ := strings.Cut(strings.TrimSpace(string(row.Data)), "\t")
	e.timezone = plainZone(zone)
	for i, part := range strings.SplitN(version, ".", 4)[:3] {
		e.version[i], _ = strconv.Atoi(part)
	}
	functions, err := functionNames(e.control)
	if err != nil {
		return err
	}
	e.rules = judge.New(e.database, functions)
	e.queryLog, err = openQueryLog(e)
	return err
}

// plainZone is UTC for the names that UTC has besides: clients compare zones by
// their names.
func plainZone(zone string) string {
	switch zone {
	case "Etc/UTC", "Etc/UCT", "Etc/Universal", "Etc/Zulu", "UCT", "Universal", "Zulu":
		return "UTC"
	}
	return zone
}

// ask runs sql, whose result is known to be small, in conn.
func (e *engine) ask(ctx context.Context, conn *chdb.Conn, sql, format string,
	params ...chdb.Param,
) (chdb.Chunk, error) {
	tag := e.tag("")
	defer e.killWhenDone(ctx, tag)()
	return conn.Query(sql+"\n"+tag, format, params...)
}

// connect opens a session with settings in database, or in the default one.
func (e *engine) connect(database, settings string) (*chdb.Conn, error) {
	conn, err := e.lib.Connect("--path=" + e.path)
	if err != nil {
		return nil, err
	}
	if database == "" {
		database = e.database
	}
	if e.cfg.Cluster != nil {
		settings += ", " + clusterSettings
	}
	for _, sql := range []string{"USE " + quoteName(database), "SET " + sessionSettings + ", " + settings} {
		if err := conn.Exec(sql); err != nil {
			conn.Close()
			return nil, err
		}
	}
	return conn, nil
}

// tag is a comment that marks one query among all that run, and holds the id that
// its client has given it.
func (e *engine) tag(id string) string {
	tag := "/*q" + strconv.FormatUint(e.queries.Add(1), 10)
	if id != "" {
		tag += " " + url.PathEscape(id)
	}
	return tag + "*/"
}

// close stops the engine, which flushes its data. All sessions must be closed.
func (e *engine) close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.queryLog.close()
	e.control.Close()
	e.control = nil
}

// quote makes a string literal.
func quote(s string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(s) + "'"
}

// quoteName makes an identifier.
func quoteName(s string) string {
	return "`" + strings.NewReplacer("\\", "\\\\", "`", "\\`").Replace(s) + "`"
}
