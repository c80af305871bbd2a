package clickhouse

import (
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/millrace-io/millrace/internal/embedded/clickhouse/chdb"
	"github.com/millrace-io/millrace/internal/embedded/clickhouse/native"
	"github.com/millrace-io/millrace/internal/embedded/clickhouse/statement"
)

// request is what a client asks for over HTTP.
type request struct {
	id        string
	statement statement.Statement
	body      io.Reader // an INSERT's data
	tables    externals
	database  string
	settings  settings
	params    []chdb.Param
	session   sessionRequest
	result    resultOptions
}

// resultOptions say how a result is sent.
type resultOptions struct {
	format   string
	revision uint64 // of the native protocol, whose marks the blocks of Native carry; 0 for none
	framed   bool   // the result travels in ClickHouse's own compressed frames
	frames   native.Compression
	coding   string        // the Content-Encoding
	hold     int           // bytes that are held until the status is sent
	whole    bool          // all of it is held
	progress time.Duration // between two headers about progress; 0 for none
}

// reserved are parameters of the address that are no settings of the engine: the
// HTTP interface itself has them, or they have no meaning here.
var reserved = words(`query database default_format user password query_id quota_key compress decompress
	session_id session_timeout session_check close_session stacktrace role enable_http_compression
	http_zlib_compression_level wait_end_of_query http_wait_end_of_query buffer_size http_response_buffer_size
	send_progress_in_http_headers http_headers_progress_interval_ms http_write_exception_in_output_format
	add_http_cors_header client_protocol_version`)

// framing are the settings of ClickHouse's own compressed frames.
var framing = words("network_compression_method network_zstd_compression_level")

// readRequest reads a request of who. The rows of external tables go into files of
// an engine, which is nil where there can be none.
func readRequest(r *http.Request, who account, files *engine) (_ *request, err error) {
	values := r.URL.Query()
	if values.Get("role") != "" {
		return nil, exception(codeNotImplemented, "NOT_IMPLEMENTED",
			"Roles are not supported: what a login may do is fixed")
	}
	req := &request{id: cmp.Or(values.Get("query_id"), newID()), settings: settings{}}
	defer func() {
		if err != nil {
			req.tables.discard(files, nil)
		}
	}()
	if req.session, err = readSessionRequest(values); err != nil {
		return nil, err
	}
	for name := range values {
		if param, ok := strings.CutPrefix(name, "param_"); ok {
			req.param(param, values.Get(name))
		}
	}
	if err := req.read(r, values, who, files); err != nil {
		return nil, err
	}
	for name := range values {
		if who == reader && framing[name] { // which analysts have, and may not set in the engine
			continue
		}
		if !reserved[name] && !strings.HasPrefix(name, "param_") && !req.describes(name) {
			req.settings[name] = values.Get(name)
		}
	}
	req.database = cmp.Or(values.Get("database"), r.Header.Get("X-ClickHouse-Database"))
	req.result, err = readResultOptions(r, values, req.statement.Format)
	return req, err
}

// read reads the statement, from a form or from the body itself.
func (q *request) read(r *http.Request, values url.Values, who account, files *engine) (err error) {
	most := int64(maxQuery)
	if who == reader {
		most = maxRead
	}
	body, err := requestBody(r, who)
	if err != nil {
		return err
	}
	boundary, err := formBoundary(r)
	if err != nil {
		return err
	}
	if boundary == "" {
		q.body = body
		q.statement, err = readStatement(r, body, most)
		return err
	}
	q.body = http.NoBody
	f := form{request: q, values: values, most: most, engine: files}
	text, err := f.read(body, boundary)
	if err != nil {
		return err
	}
	q.statement, err = statement.Parse(text)
	return err
}

// param adds the value of a query parameter; of several with one name the first counts.
func (q *request) param(name, value string) {
	for _, p := range q.params {
		if p.Name == name {
			return
		}
	}
	q.params = append(q.params, chdb.Param{Name: name, Value: value})
}

// describes tells whether a parameter of the address is about an external table.
func (q *request) describes(name string) bool {
	for _, t := range q.tables {
		if about, ok := strings.CutPrefix(name, t.name+"_"); ok && tableFields[about] {
			return true
		}
	}
	return false
}

func readResultOptions(r *http.Request, values url.Values, format string) (o resultOptions, err error) {
	o.format = cmp.Or(format, r.Header.Get("X-ClickHouse-Format"), values.Get("default_format"), "TabSeparated")
	if !identifier.MatchString(o.format) {
		return o, exception(codeUnknownFormat, "UNKNOWN_FORMAT", "Unknown format %s", o.format)
	}
	if isOn(values.Get("http_write_exception_in_output_format")) {
		return o, exception(codeNotImplemented, "NOT_IMPLEMENTED",
			"http_write_exception_in_output_format is not supported: exceptions come behind the result")
	}
	if o.format == "Native" {
		if o.revision, err = number(values, "client_protocol_version", 0); err != nil {
			return o, err
		}
	}
	o.framed = values.Get("compress") == "1"
	o.frames = compression(true, settings{"network_compression_method": values.Get("network_compression_method")})
	if !o.framed && isOn(values.Get("enable_http_compression")) {
		o.coding = acceptedCoding(r)
	}
	o.whole = isOn(values.Get("wait_end_of_query")) || isOn(values.Get("http_wait_end_of_query"))
	held := uint64(holdBack)
	if strings.HasSuffix(o.format, "WithProgress") {
		held = 0 // its events are of use at once
	}
	hold, err := number(values, "http_response_buffer_size", held)
	if err == nil {
		hold, err = number(values, "buffer_size", hold)
	}
	if err != nil {
		return o, err
	}
	o.hold = int(min(hold, maxHoldBack))
	if isOn(values.Get("send_progress_in_http_headers")) {
		millis, err := number(values, "http_headers_progress_interval_ms", 100)
		if err != nil {
			return o, err
		}
		o.progress = max(minProgress, time.Duration(min(millis, 3_600_000))*time.Millisecond)
	}
	return o, nil
}

const (
	codeBadArguments  = 36
	codeUnknownFormat = 73
)

// number reads a parameter of the address that is a number.
func number(values url.Values, name string, otherwise uint64) (uint64, error) {
	text := values.Get(name)
	if text == "" {
		return otherwise, nil
	}
	n, err := strconv.ParseUint(text, 10, 63)
	if err != nil {
		return 0, exception(codeBadArguments, "BAD_ARGUMENTS", "Parameter %s: %q is not a number", name, text)
	}
	return n, nil
}

func isOn(value string) bool { return value == "1" || value == "true" }

func newID() string {
	var b [16]byte
	_, _ = rand.Read(b[:])
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	s := hex.EncodeToString(b[:])
	return s[:8] + "-" + s[8:12] + "-" + s[12:16] + "-" + s[16:20] + "-" + s[20:]
}
