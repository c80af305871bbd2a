package clickhouse

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace-io/millrace/internal/embedded/clickhouse/chdb"
)

// engine is the running ClickHouse engine of this process.
type engine struct {
	lib      *chdb.Library
	path     string
	database string
	timezone string
	version  [3]int
	names    functionNames
	queries  atomic.Uint64

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
	if err := os.MkdirAll(path, 0o750); err != nil {
		return nil, fmt.Errorf("make data folder %s: %w", path, err)
	}
	lib, err := chdb.Load(cfg.Library)
	if err != nil {
		return nil, err
	}
	e := &engine{lib: lib, path: path, database: cfg.Database}
	if e.control, err = lib.Connect(engineArgs(path, cfg.MaxMemory)...); err != nil {
		return nil, fmt.Errorf("open data folder %s: %w", path, err)
	}
	if err := e.prepare(); err != nil {
		e.control.Close()
		return nil, err
	}
	log.Info("ClickHouse engine started", "path", path, "version", e.version)
	return e, nil
}

// engineArgs are server settings for a small machine: few threads that wait, and
// caches that fit.
func engineArgs(path string, memory int64) []string {
	args := []string{"--path=" + path}
	for name, value := range map[string]int64{
		"max_server_memory_usage":        memory,
		"mark_cache_size":                memory / 16,
		"primary_index_cache_size":       memory / 16,
		"index_mark_cache_size":          memory / 64,
		"uncompressed_cache_size":        0,
		"index_uncompressed_cache_size":  0,
		"mmap_cache_size":                100,
		"query_condition_cache_size":     memory / 64,
		"compiled_expression_cache_size": memory / 64,
		"background_pool_size":           4,
		"background_move_pool_size":      1,
		"background_fetches_pool_size":   1,
		"background_common_pool_size":    2,
		"background_schedule_pool_size":  8,
		"max_thread_pool_size":           500,
		"max_thread_pool_free_size":      16,
		"max_io_thread_pool_size":        16,
		"max_io_thread_pool_free_size":   0,
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
	if err := os.Mkdir(e.spoolDir(), 0o750); err != nil {
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
	e.timezone = zone
	for i, part := range strings.SplitN(version, ".", 4)[:3] {
		e.version[i], _ = strconv.Atoi(part)
	}
	e.names, err = loadFunctionNames(e.control)
	return err
}

// connect opens a session in database, or in the default one.
func (e *engine) connect(database string) (*chdb.Conn, error) {
	conn, err := e.lib.Connect("--path=" + e.path)
	if err != nil {
		return nil, err
	}
	if database == "" {
		database = e.database
	}
	for _, sql := range []string{"USE " + quoteName(database), "SET " + sessionSettings} {
		if err := conn.Exec(sql); err != nil {
			conn.Close()
			return nil, err
		}
	}
	return conn, nil
}

// tag is a comment that marks one query among all that run.
func (e *engine) tag() string {
	return "/*q" + strconv.FormatUint(e.queries.Add(1), 10) + "*/"
}

// killWhenDone cancels the query that ends in tag once ctx is done, until stop
// is called: the query may not have begun to run when ctx is.
func (e *engine) killWhenDone(ctx context.Context, tag string) (stop func()) {
	ended := make(chan struct{})
	unregister := context.AfterFunc(ctx, func() {
		retry := time.NewTicker(20 * time.Millisecond)
		defer retry.Stop()
		for {
			e.kill(tag)
			select {
			case <-ended:
				return
			case <-retry.C:
			}
		}
	})
	return func() {
		unregister()
		close(ended)
	}
}

func (e *engine) kill(tag string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.control == nil {
		return
	}
	// Written so that this statement does not match itself.
	_ = e.control.Exec("KILL QUERY WHERE endsWith(query, concat(" + quote(tag[:2]) + ", " + quote(tag[2:]) + "))")
}

// close stops the engine, which flushes its data. All sessions must be closed.
func (e *engine) close() {
	e.mu.Lock()
	defer e.mu.Unlock()
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
