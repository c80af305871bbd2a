package clickhouse

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"strconv"
	"strings"

	"github.com/millrace-io/millrace/internal/embedded/clickhouse/chdb"
	"github.com/millrace-io/millrace/internal/embedded/clickhouse/native"
	"github.com/millrace-io/millrace/internal/embedded/clickhouse/statement"
)

// The engine leaves totals and extremes out of the Native format. So a result
// that has them is written as CSV, which is read back section by section: the
// rows, then the totals if there are any, then both extremes if there are any. An
// empty line is between them; within values it is quoted.
const sectionFormat = "CSV"

var sectionSettings = settings{
	"format_csv_delimiter":                                    ",",
	"format_csv_null_representation":                          `\N`,
	"output_format_csv_crlf_end_of_line":                      "0",
	"output_format_csv_serialize_tuple_into_separate_columns": "0",
	"bool_true_representation":                                "true",
	"bool_false_representation":                               "false",
	"date_time_output_format":                                 "iso", // UTC: every moment has one text
}

// readBack are the settings of the session that reads sections.
const readBack = "max_threads = 1, input_format_parallel_parsing = 0, input_format_csv_detect_header = 0, " +
	"input_format_csv_deserialize_separate_columns_into_tuple = 0, input_format_csv_empty_as_default = 0, " +
	"date_time_input_format = 'best_effort', allow_suspicious_low_cardinality_types = 1, " +
	"allow_suspicious_variant_types = 1"

// inSections tells whether q has a result of several sections, for a client that
// takes them.
func (q query) inSections(extremes string) bool {
	return q.section != nil && q.Verb == "SELECT" && (extremes == "1" || extremes == "true" || q.HasTotals())
}

// withSections are settings, with those that a result of sections needs.
func withSections(set settings) settings {
	all := maps.Clone(set)
	if all == nil {
		all = settings{}
	}
	maps.Copy(all, sectionSettings)
	return all
}

// executeInSections runs q in conn, which has the sectionSettings, and gives emit
// its rows, totals and extremes.
func (e *engine) executeInSections(ctx context.Context, conn *chdb.Conn, q query, columns []native.Column, tag string,
	emit emitter,
) error {
	c, err := e.writeSections(conn, q, tag)
	defer c.close()
	if err != nil {
		return err
	}
	reader, err := e.connect("", readBack)
	if err != nil {
		return err
	}
	defer reader.Close()
	for i, s := range c.sections {
		switch {
		case i > 0 && s.lines == 1:
			q.section(native.Totals)
		case i > 0:
			q.section(native.Extremes)
		}
		if err := e.readSection(ctx, reader, s.spool, columns, emit); err != nil {
			return err
		}
	}
	return nil
}

// writeSections runs q and cuts its result.
func (e *engine) writeSections(conn *chdb.Conn, q query, tag string) (*cutter, error) {
	c := &cutter{next: func() (*spool, error) { return newSpool(e.spoolDir(), &e.spooled) }}
	from, to, err := os.Pipe()
	if err != nil {
		return c, fmt.Errorf("make a pipe for the result: %w", err)
	}
	defer from.Close()
	copied := make(chan error, 1)
	go func() { copied <- c.read(from) }()
	q.file, q.format = "/dev/fd/"+strconv.Itoa(int(to.Fd())), sectionFormat
	_, err = conn.Query(q.tagged(tag), q.format, q.params...)
	return c, errors.Join(err, to.Close(), <-copied)
}

// readSection has the engine read rows and gives them to emit in blocks.
func (e *engine) readSection(ctx context.Context, conn *chdb.Conn, rows *spool, columns []native.Column,
	emit emitter,
) error {
	if rows.size == 0 {
		return nil
	}
	var structure []string
	for i, c := range columns {
		structure = append(structure, "c"+strconv.Itoa(i+1)+" "+c.Type)
	}
	text := "SELECT * FROM file(" + quote(rows.path()) + ", " + sectionFormat + ", " +
		quote(strings.Join(structure, ", ")) + ")"
	q := query{Statement: statement.Statement{Verb: "SELECT", Text: text}, format: "Native"}
	return execute(ctx, e, conn, q, emit)
}

// cutter cuts CSV at its empty lines.
type cutter struct {
	next     func() (*spool, error) // makes the file of another section
	sections []section

	quoted, within bool // the next byte is in quotes, is not the first one of a line
}

type section struct {
	*spool
	lines int
}

// read reads to the end even when it cannot write, for the sake of the engine,
// which would wait on a full pipe.
func (c *cutter) read(from io.Reader) error {
	buf := make([]byte, 64<<10)
	failed := c.begin()
	for {
		n, err := from.Read(buf)
		if failed == nil {
			failed = c.write(buf[:n])
		}
		if errors.Is(err, io.EOF) {
			return failed
		}
		if err != nil {
			return fmt.Errorf("read result: %w", err)
		}
	}
}

func (c *cutter) begin() error {
	rows, err := c.next()
	if err == nil {
		c.sections = append(c.sections, section{spool: rows})
	}
	return err
}

func (c *cutter) write(part []byte) error {
	start := 0
	for i, b := range part {
		switch {
		case b == '"':
			c.quoted = !c.quoted
		case b != '\n' || c.quoted:
		case c.within:
			c.sections[len(c.sections)-1].lines++
		default:
			if _, err := c.sections[len(c.sections)-1].Write(part[start:i]); err != nil {
				return err
			}
			if err := c.begin(); err != nil {
				return err
			}
			start = i + 1
		}
		c.within = b != '\n' || c.quoted
	}
	_, err := c.sections[len(c.sections)-1].Write(part[start:])
	return err
}

func (c *cutter) close() {
	for _, s := range c.sections {
		s.close()
	}
}
