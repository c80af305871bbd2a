package source

import (
	"bufio"
	"bytes"
	"fmt"
	"net/textproto"
	"strings"
)

// status is the server's word on a request.
type status struct {
	code, description string
}

// parseStatus reads a header of the form "NATS/1.0 <code> <description>", with
// fields below (NATS ADR-4).
func parseStatus(header []byte) (s status, fields textproto.MIMEHeader, err error) {
	r := textproto.NewReader(bufio.NewReader(bytes.NewReader(header)))
	line, err := r.ReadLine()
	if err != nil {
		return s, nil, fmt.Errorf("read a status: %w", err)
	}
	rest, ok := strings.CutPrefix(line, "NATS/1.0")
	if !ok {
		return s, nil, fmt.Errorf("read a status: %.40q is none", line)
	}
	s.code, s.description, _ = strings.Cut(strings.TrimSpace(rest), " ")
	if fields, err = r.ReadMIMEHeader(); err != nil {
		return s, nil, fmt.Errorf("read a status: %w", err)
	}
	return s, fields, nil
}
