package chdb

import (
	"errors"
	"runtime"
	"unsafe"
)

// Conn is one session of the engine: it has its own settings, current database
// and temporary tables. Use it from one goroutine at a time.
type Conn struct {
	lib    *Library
	handle **byte
	stage  *Stage // in the engine's memory; nil until it is set
}

// Connect opens a session. The first one of a process starts the engine with
// args, which later ones ignore; closing the last one stops it and flushes its
// data.
func (l *Library) Connect(args ...string) (*Conn, error) {
	argv := newVector(append([]string{"clickhouse"}, args...))
	handle := l.connect(int32(len(argv.ptrs)), argv.first())
	runtime.KeepAlive(argv)
	if handle == nil || *handle == nil {
		return nil, errors.New("open a session of the ClickHouse engine: it gives no reason")
	}
	c := &Conn{lib: l, handle: handle}
	if err := l.restore(); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// Close ends the session.
func (c *Conn) Close() {
	if c.handle != nil {
		c.lib.closeConn(c.handle)
		c.handle = nil
	}
}

// Param is the value of a {name:Type} placeholder.
type Param struct{ Name, Value string }

// Query runs sql and returns its whole result in format, in Go's memory. Use it
// for results that are known to be small.
func (c *Conn) Query(sql, format string, params ...Param) (Chunk, error) {
	res := c.call(c.lib.query, c.lib.queryParams, sql, format, params)
	if res == 0 {
		return Chunk{}, errors.New("query the ClickHouse engine: no result")
	}
	defer c.lib.destroy(res)
	if err := c.lib.err(res); err != nil {
		return Chunk{}, err
	}
	chunk := c.lib.chunk(res)
	chunk.Data = append([]byte(nil), chunk.Data...)
	return chunk, nil
}

// Exec runs sql for its effect.
func (c *Conn) Exec(sql string) error {
	_, err := c.Query(sql, "Null")
	return err
}

// plainCall is a call of the engine with a statement and a format.
type plainCall func(conn *byte, sql *byte, sqlLen uintptr, format *byte, formatLen uintptr) uintptr

// paramCall is a call of the engine with a statement, a format, and the names and
// the values of parameters.
type paramCall func(conn *byte, sql *byte, sqlLen uintptr, format *byte, formatLen uintptr,
	names **byte, nameLens *uintptr, values **byte, valueLens *uintptr, count uintptr) uintptr

func (c *Conn) call(plain plainCall, withParams paramCall, sql, format string, params []Param) uintptr {
	defer runtime.KeepAlive(sql)
	defer runtime.KeepAlive(format)
	if len(params) == 0 {
		return plain(*c.handle, unsafe.StringData(sql), uintptr(len(sql)), unsafe.StringData(format), uintptr(len(format)))
	}
	var names, values []string
	for _, p := range params {
		names, values = append(names, p.Name), append(values, p.Value)
	}
	n, v := newVector(names), newVector(values)
	defer runtime.KeepAlive(n)
	defer runtime.KeepAlive(v)
	return withParams(*c.handle, unsafe.StringData(sql), uintptr(len(sql)), unsafe.StringData(format), uintptr(len(format)),
		n.first(), &n.lens[0], v.first(), &v.lens[0], uintptr(len(params)))
}

// Stream starts sql, which selects, and returns its result as a stream of
// chunks. Each chunk is a document of format by itself: use one that has
// neither head nor tail, such as Native.
//
// The engine ties a running query to a thread: the calling goroutine stays
// locked to its own until it closes the stream.
func (c *Conn) Stream(sql, format string, params ...Param) (*Stream, error) {
	runtime.LockOSThread()
	handle := c.call(c.lib.streamQuery, c.lib.streamParams, sql, format, params)
	if handle == 0 {
		runtime.UnlockOSThread()
		return nil, errors.New("start a query in the ClickHouse engine: no result")
	}
	if err := c.lib.err(handle); err != nil {
		c.lib.destroy(handle)
		runtime.UnlockOSThread()
		return nil, err
	}
	return &Stream{conn: c, handle: handle}, nil
}

// Stream is the result of a running query.
type Stream struct {
	conn   *Conn
	handle uintptr
	chunk  uintptr
	done   bool
	failed bool
}

// Chunk is a part of a result. Data is the engine's memory, valid until the
// next call on the stream.
type Chunk struct {
	Data                      []byte
	Rows                      uint64 // rows of the result in Data
	ReadRows, ReadBytes       uint64 // read from storage since the last chunk
	TotalRows                 uint64 // to be read in all, as far as they became known since the last chunk
	WrittenRows, WrittenBytes uint64
	Report                    bool   // of a statement that runs, not a part of its result
	Memory                    uint64 // used by the statement at the time of a report
}

// Next returns the next chunk; one without data ends the stream.
func (s *Stream) Next() (Chunk, error) {
	s.free()
	if s.done {
		return Chunk{}, nil
	}
	lib := s.conn.lib
	s.chunk = lib.fetch(*s.conn.handle, s.handle)
	if s.chunk == 0 {
		s.done = true
		return Chunk{}, errors.New("fetch from the ClickHouse engine: no result")
	}
	if err := lib.err(s.chunk); err != nil {
		s.done, s.failed = true, true
		return Chunk{}, err
	}
	chunk := lib.chunk(s.chunk)
	s.done = len(chunk.Data) == 0
	return chunk, nil
}

// Close ends the query, which is cancelled when it has not run to its end. Call
// it from the goroutine that started the stream.
func (s *Stream) Close() {
	if s.handle == 0 {
		return
	}
	s.free()
	if !s.done {
		s.conn.lib.cancel(*s.conn.handle, s.handle)
	}
	s.conn.lib.destroy(s.handle)
	s.handle = 0
	if s.failed {
		// The engine keeps a query that has failed, and its memory, until the session
		// has another one.
		_ = s.conn.Exec("SELECT 1")
	}
	runtime.UnlockOSThread()
}

func (s *Stream) free() {
	if s.chunk != 0 {
		s.conn.lib.destroy(s.chunk)
		s.chunk = 0
	}
}

// chunk is a result, its data in the engine's memory.
func (l *Library) chunk(result uintptr) Chunk {
	return Chunk{
		Data:         unsafe.Slice(l.resultBuffer(result), int(l.resultLength(result))),
		Rows:         l.rowsRead(result),
		ReadRows:     l.storageRows(result),
		ReadBytes:    l.storageBytes(result),
		WrittenRows:  l.rowsWritten(result),
		WrittenBytes: l.bytesWritten(result),
	}
}

// err is the exception that a result stands for, if any.
func (l *Library) err(result uintptr) error {
	text := l.resultError(result)
	if text == nil {
		return nil
	}
	n := 0
	for *(*byte)(unsafe.Add(unsafe.Pointer(text), n)) != 0 {
		n++
	}
	if n == 0 {
		return nil
	}
	return parseException(string(unsafe.Slice(text, n)))
}

// vector is a C array of strings, each ended by a zero byte.
type vector struct {
	ptrs []*byte
	lens []uintptr
}

func newVector(items []string) *vector {
	v := &vector{}
	for _, s := range items {
		v.ptrs = append(v.ptrs, &append([]byte(s), 0)[0])
		v.lens = append(v.lens, uintptr(len(s)))
	}
	return v
}

func (v *vector) first() **byte { return &v.ptrs[0] }
