package clickhouse

import (
	"context"
	"net"

	"github.com/millrace-io/millrace/internal/embedded/clickhouse/chdb"
	"github.com/millrace-io/millrace/internal/embedded/clickhouse/native"
	"github.com/millrace-io/millrace/internal/embedded/clickhouse/statement"
)

// Vetting judges statements as those of an analyst, without running them.
type Vetting struct {
	engine *engine
	conn   *chdb.Conn
}

func (s *Server) Vetting() (*Vetting, error) {
	conn, err := s.engine.connect("", judgeSettings)
	return &Vetting{s.engine, conn}, err
}

func (v *Vetting) Close() { v.conn.Close() }

// Vet is nil for a statement that is admitted. Any other error than a denial is
// the engine's about a statement that it cannot read.
func (v *Vetting) Vet(text string) error {
	parsed, err := statement.Parse(text)
	if err != nil {
		return err
	}
	if parsed.Insert != nil {
		return errReadOnly()
	}
	q := query{Statement: parsed, format: parsed.Format}
	if q.format == "" {
		q.format = "TSV"
	}
	_, err = v.engine.vet(context.Background(), v.conn, &q)
	return err
}

func (s *Server) reader() *readerSession {
	sess, _ := s.openReader(origin{}, "")
	return sess.(*readerSession)
}

// Admits tells whether a client is taken for a server of the cluster.
func (c *Cluster) Admits(client string, from net.Addr) bool { return c.admits(client, from) }

// MayChange tells whether analysts may change a setting.
func (s *Server) MayChange(name string) bool { return s.reader().mayChange(name) }

// Limited tells whether they may do so up to a limit.
func (s *Server) Limited(name string) bool {
	_, limited := s.reader().limits[name]
	return limited
}

// Raw runs a statement, admitted or not.
func (v *Vetting) Raw(text string) error {
	_, err := v.conn.Query(text, "Null")
	return err
}

// Selecting opens a session of the read-write login. run runs a SELECT in it, as the
// native protocol does when its columns are asked for.
func (s *Server) Selecting() (run func(text string, columns bool) error, stop func(), err error) {
	sess, err := s.openSession(origin{who: writer, login: "default"}, "")
	if err != nil {
		return nil, nil, err
	}
	return func(text string, columns bool) error {
		q := query{Statement: statement.Statement{Verb: "SELECT", Text: text}, format: "Native"}
		if columns {
			q.columns = func([]native.Column) {}
		}
		return sess.run(context.Background(), q, discard)
	}, sess.close, nil
}
