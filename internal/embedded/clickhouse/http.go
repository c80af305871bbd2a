package clickhouse

import (
	"compress/gzip"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/millrace-io/millrace/internal/embedded/clickhouse/statement"
)

const (
	maxQuery  = 64 << 20  // of a query in a body that is no INSERT
	maxRead   = 1 << 20   // of an analyst's query; the engine takes a quarter of it
	queryHead = 256 << 10 // of a body, in which an INSERT's data must begin
)

// site is the HTTP interface. Its queries end with ctx.
func (s *Server) site(ctx context.Context) *http.Server {
	mux := http.NewServeMux()
	ok := func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "Ok.\n") }
	mux.HandleFunc("/ping", ok)
	mux.HandleFunc("/replicas_status", ok)
	mux.HandleFunc("/{$}", func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet && r.URL.RawQuery == "" {
			ok(w, r)
			return
		}
		if problem := s.foreign(r); problem != nil {
			writeException(w, problem)
			return
		}
		if !s.begin() {
			http.Error(w, "The server stops.", http.StatusServiceUnavailable)
			return
		}
		defer s.tasks.Done()
		s.exchange(ctx, w, r)
	})
	return &http.Server{
		Handler:           mux,
		ReadHeaderTimeout: handshakeTime,
		IdleTimeout:       idleTime,
		MaxHeaderBytes:    1 << 20,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
}

// exchange answers one request.
func (s *Server) exchange(queries context.Context, w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(queries, cancel)()
	reply := &reply{w: w, r: r, zone: s.engine.timezone}
	err := s.perform(ctx, r, reply)
	reply.finish(err)
}

func (s *Server) perform(ctx context.Context, r *http.Request, reply *reply) error {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut:
	default:
		return exception(codeNotImplemented, "NOT_IMPLEMENTED", "Unsupported method %s", r.Method)
	}
	user, key := credentials(r)
	who, err := s.login(user, key)
	if err != nil {
		return err
	}
	if who == reader {
		reply.readDeadline(time.Now().Add(bodyTime))
	}
	req, err := readRequest(r, who)
	if err != nil {
		return err
	}
	reply.readDeadline(time.Time{})
	reply.prepare(req)
	sess, err := s.openSession(who, req.database)
	if err != nil {
		return err
	}
	defer sess.close()
	q := query{Statement: req.statement, settings: req.settings, params: req.params, limited: r.Method == http.MethodGet || r.Method == http.MethodHead}
	if q.Insert == nil {
		return reply.result(ctx, sess, q, req.format)
	}
	if !sess.writes() || q.limited {
		return errReadOnly()
	}
	return s.insertBody(ctx, sess, q, req.body)
}

// insertBody inserts what follows an INSERT.
func (s *Server) insertBody(ctx context.Context, sess session, q query, body io.Reader) error {
	rows, err := newSpool(s.engine.spoolDir())
	if err != nil {
		return err
	}
	defer rows.close()
	if _, err := io.WriteString(rows, q.Insert.Inline); err != nil {
		return err
	}
	if _, err := io.Copy(rows, body); err != nil {
		return exception(codeIncorrectData, "INCORRECT_DATA", "Cannot read the request's body: %v", err)
	}
	if rows.size == 0 {
		return nil
	}
	insert, err := insertFile(q.Insert, rows.path(), q.Insert.Format, q.settings)
	if err != nil {
		return err
	}
	return sess.run(ctx, query{Statement: insert, format: "Null"}, discard)
}

const codeIncorrectData = 117

// credentials are those of the Authorization header, of ClickHouse's own ones,
// or of the address, in that order.
func credentials(r *http.Request) (user, password string) {
	if user, password, ok := r.BasicAuth(); ok {
		return user, password
	}
	if user := r.Header.Get("X-ClickHouse-User"); user != "" {
		return user, r.Header.Get("X-ClickHouse-Key")
	}
	values := r.URL.Query()
	user, password = values.Get("user"), values.Get("password")
	if user == "" {
		user = "default"
	}
	if password == "" {
		password = r.Header.Get("X-ClickHouse-Key")
	}
	return user, password
}

// readStatement reads the statement of a request: the query parameter, then the
// body. Of an INSERT the rest of the body is left to be read as its data.
func readStatement(r *http.Request, body io.Reader, most int64) (statement.Statement, error) {
	text := r.URL.Query().Get("query")
	if text != "" {
		if s, err := statement.Parse(text); err == nil && s.Insert != nil {
			return s, nil
		}
		text += "\n"
	}
	head, err := io.ReadAll(io.LimitReader(body, queryHead))
	if err != nil {
		return statement.Statement{}, bodyError(err)
	}
	if s, err := statement.Parse(text + string(head)); err == nil && s.Insert != nil {
		return s, nil
	}
	left := most - int64(len(head))
	rest, err := io.ReadAll(io.LimitReader(body, left+1))
	if err != nil {
		return statement.Statement{}, bodyError(err)
	}
	if int64(len(rest)) > left {
		return statement.Statement{}, exception(codeTooLarge, "QUERY_IS_TOO_LARGE", "The query is larger than %d bytes", most)
	}
	return statement.Parse(text + string(head) + string(rest))
}

const codeTooLarge = 223

func bodyError(err error) error {
	return exception(codeIncorrectData, "INCORRECT_DATA", "Cannot read the request's body: %v", err)
}

// requestBody undoes the body's compression.
func requestBody(r *http.Request) (io.Reader, error) {
	switch r.Header.Get("Content-Encoding") {
	case "", "identity":
		return r.Body, nil
	case "gzip":
		body, err := gzip.NewReader(r.Body)
		if errors.Is(err, io.EOF) {
			return http.NoBody, nil
		}
		if err != nil {
			return nil, bodyError(err)
		}
		return body, nil
	}
	return nil, exception(codeNotImplemented, "NOT_IMPLEMENTED", "Unknown Content-Encoding %s", r.Header.Get("Content-Encoding"))
}

// statusOf is the HTTP status that ClickHouse gives an exception.
func statusOf(code int) int {
	switch code {
	case 194:
		return http.StatusUnauthorized
	case 192, 193, codeAuthentication, 497, 512:
		return http.StatusForbidden
	case 36, 427, 6, 25, 26, 38, 41, 72, 245, 441, 440, 27, 376, 15, 44, 93, 94, 8, 167, 168, 59, codeSyntax, codeIncorrectData, 53, 321:
		return http.StatusBadRequest
	case 60, 46, 47, 50, 56, 81, codeUnknownSetting, 62 + 1, 73, 336, 78, 511:
		return http.StatusNotFound
	case codeTooLarge:
		return http.StatusRequestEntityTooLarge
	case codeNotImplemented:
		return http.StatusNotImplemented
	case 209, 76, codeTooMany:
		return http.StatusServiceUnavailable
	case 159:
		return http.StatusRequestTimeout
	}
	return http.StatusInternalServerError
}

// readDeadline bounds how long a client may take for its statement.
func (p *reply) readDeadline(at time.Time) {
	_ = http.NewResponseController(p.w).SetReadDeadline(at)
}

func writeDeadline(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(sendTime))
}

func writeException(w http.ResponseWriter, err error) {
	e := asException(err)
	w.Header().Set("X-ClickHouse-Exception-Code", strconv.Itoa(e.Code))
	w.Header().Set("Content-Type", "text/plain; charset=UTF-8")
	w.Header().Del("Content-Encoding")
	w.WriteHeader(statusOf(e.Code))
	_, _ = io.WriteString(w, e.Error()+"\n")
}
