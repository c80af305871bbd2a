package clickhouse

import (
	"crypto/rand"
	"encoding/hex"
	"io"
	"net/http"
	"strings"

	"github.com/ClickHouse/ch-go/compress"

	"github.com/millrace-io/millrace/internal/embedded/clickhouse/chdb"
	"github.com/millrace-io/millrace/internal/embedded/clickhouse/statement"
)

// request is what a client asks for over HTTP.
type request struct {
	id        string
	statement statement.Statement
	body      io.Reader // an INSERT's data
	database  string
	format    string // of the result
	framed    bool   // the result travels in ClickHouse's own compressed frames
	gzip      bool
	settings  settings
	params    []chdb.Param
}

// reserved are parameters of the address that are no settings.
var reserved = words(`query database default_format user password query_id quota_key compress decompress
	session_timeout session_check close_session stacktrace role enable_http_compression
	http_zlib_compression_level wait_end_of_query buffer_size send_progress_in_http_headers
	http_write_exception_in_output_format add_http_cors_header client_protocol_version`)

func readRequest(r *http.Request, who account) (*request, error) {
	values := r.URL.Query()
	if values.Get("session_id") != "" {
		return nil, exception(codeNotImplemented, "NOT_IMPLEMENTED", "HTTP sessions are not supported; the native protocol has them")
	}
	body, err := requestBody(r)
	if err != nil {
		return nil, err
	}
	if values.Get("decompress") == "1" {
		if who == reader {
			// A frame announces what memory is taken for it.
			return nil, exception(codeNotImplemented, "NOT_IMPLEMENTED", "Analysts' queries are not decompressed: send them as they are, or with gzip")
		}
		body = untilEOF{compress.NewReader(body)}
	}
	req := &request{id: values.Get("query_id"), body: body, settings: settings{}, framed: values.Get("compress") == "1"}
	req.gzip = values.Get("enable_http_compression") == "1" && strings.Contains(r.Header.Get("Accept-Encoding"), "gzip")
	for name := range values {
		if param, ok := strings.CutPrefix(name, "param_"); ok {
			req.params = append(req.params, chdb.Param{Name: param, Value: values.Get(name)})
		} else if !reserved[name] {
			req.settings[name] = values.Get(name)
		}
	}
	most := int64(maxQuery)
	if who == reader {
		most = maxRead
	}
	if req.statement, err = readStatement(r, body, most); err != nil {
		return nil, err
	}
	req.database = first(values.Get("database"), r.Header.Get("X-ClickHouse-Database"))
	req.format = first(req.statement.Format, r.Header.Get("X-ClickHouse-Format"), values.Get("default_format"), "TabSeparated")
	if !identifier.MatchString(req.format) {
		return nil, exception(73, "UNKNOWN_FORMAT", "Unknown format %s", req.format)
	}
	if req.format == "Native" && values.Get("client_protocol_version") != "" {
		// Its blocks carry marks of that revision, which the engine does not write.
		return nil, exception(codeNotImplemented, "NOT_IMPLEMENTED",
			"Drivers that speak Native over HTTP are not supported: use the native protocol, on its own port")
	}
	if req.id == "" {
		req.id = newID()
	}
	return req, nil
}

func first(values ...string) string {
	for _, v := range values {
		if v != "" {
			return v
		}
	}
	return ""
}

func newID() string {
	var b [16]byte
	_, _ = rand.Read(b[:])
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	s := hex.EncodeToString(b[:])
	return s[:8] + "-" + s[8:12] + "-" + s[12:16] + "-" + s[16:20] + "-" + s[20:]
}

// untilEOF makes the end of the stream between two frames an end.
type untilEOF struct{ *compress.Reader }

func (u untilEOF) Read(p []byte) (int, error) {
	n, err := u.Reader.Read(p)
	return n, frameEnd(err)
}
