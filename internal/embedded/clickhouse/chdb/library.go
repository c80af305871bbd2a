package chdb

import (
	"fmt"

	"github.com/ebitengine/purego"
)

// Library is the loaded engine library. It is never unloaded: the engine keeps
// threads of its own.
type Library struct {
	connect       func(argc int32, argv **byte) **byte
	closeConn     func(conn **byte)
	query         plainCall
	queryParams   paramCall
	streamQuery   plainCall
	streamParams  paramCall
	fetch         func(conn *byte, stream uintptr) uintptr
	cancel        func(conn *byte, stream uintptr)
	destroy       func(result uintptr)
	resultBuffer  func(result uintptr) *byte
	resultLength  func(result uintptr) uintptr
	resultError   func(result uintptr) *byte
	rowsRead      func(result uintptr) uint64
	storageRows   func(result uintptr) uint64
	storageBytes  func(result uintptr) uint64
	rowsWritten   func(result uintptr) uint64
	bytesWritten  func(result uintptr) uint64
	signalHandler func(enabled bool)

	restore func() error // gives the signals of faults back to the Go runtime
}

// Load opens the engine library at path. Load it once per process.
func Load(path string) (lib *Library, err error) {
	restore, err := keepHandlers()
	if err != nil {
		return nil, err
	}
	handle, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_GLOBAL)
	if err != nil {
		return nil, fmt.Errorf("load ClickHouse engine %s: %w", path, err)
	}
	lib = &Library{restore: restore}
	for name, fn := range map[string]any{
		"chdb_connect":                     &lib.connect,
		"chdb_close_conn":                  &lib.closeConn,
		"chdb_query_n":                     &lib.query,
		"chdb_query_with_params_n":         &lib.queryParams,
		"chdb_stream_query_n":              &lib.streamQuery,
		"chdb_stream_query_with_params_n":  &lib.streamParams,
		"chdb_stream_fetch_result":         &lib.fetch,
		"chdb_stream_cancel_query":         &lib.cancel,
		"chdb_destroy_query_result":        &lib.destroy,
		"chdb_result_buffer":               &lib.resultBuffer,
		"chdb_result_length":               &lib.resultLength,
		"chdb_result_error":                &lib.resultError,
		"chdb_result_rows_read":            &lib.rowsRead,
		"chdb_result_storage_rows_read":    &lib.storageRows,
		"chdb_result_storage_bytes_read":   &lib.storageBytes,
		"chdb_result_rows_written":         &lib.rowsWritten,
		"chdb_result_bytes_written":        &lib.bytesWritten,
		"chdb_set_signal_handlers_enabled": &lib.signalHandler,
	} {
		symbol, err := purego.Dlsym(handle, name)
		if err != nil {
			return nil, fmt.Errorf("load ClickHouse engine %s: %w", path, err)
		}
		purego.RegisterFunc(fn, symbol)
	}
	// The Go runtime owns the signals of this process; the engine's handlers
	// would take a nil dereference in Go for a crash of the engine. Without them, it
	// removes all handlers of faults whenever it opens a session: a nil dereference
	// would then end the process without a word.
	lib.signalHandler(false)
	return lib, nil
}
