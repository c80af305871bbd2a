package postgres

import (
	"context"
	"fmt"
	"net"

	"github.com/millrace-io/millrace/internal/embedded/child"
	"github.com/millrace-io/millrace/internal/embedded/confine"
)

// Confinement is what confines the server, known once it is ready; nil while
// nothing is known.
func (s *Server) Confinement() *confine.Report { return s.confinement.Load() }

// rules are what the server needs: its data, its installation, its port. It
// reaches no password file, no shell, and no other server.
func (s *Server) rules() confine.Rules {
	r := confine.Rules{
		Programs: []string{s.config.program("postgres")},
		Read:     []string{s.config.Engine, s.config.accessFile(), "/etc/localtime", "/usr/share/zoneinfo"},
		Write:    []string{s.config.data()},
		Listen:   []uint16{uint16(s.port)},
	}
	if net.ParseIP(s.host) == nil { // a name, such as localhost
		r.Read = append(r.Read, "/etc/hosts", "/etc/nsswitch.conf", "/etc/host.conf", "/etc/gai.conf")
	}
	return r
}

// confined returns the rules for the server if its program runs under them as
// whom it runs. A server that is not confined is worth more than none.
func (s *Server) confined(ctx context.Context) *confine.Rules {
	if !s.config.Confine {
		s.confinement.Store(&confine.Report{Missing: []string{"not configured"}})
		return nil
	}
	rules := s.rules()
	_, err := child.Exec(ctx, child.Config{
		Name: "postgres -V", Path: s.config.program("postgres"), Args: []string{"-V"},
		Env: environment(), Dir: s.config.Dir, Attr: s.identity.attr, Confine: &rules,
	})
	if err != nil {
		s.confinement.Store(&confine.Report{Missing: []string{fmt.Sprintf("it does not run confined: %v", err)}})
		return nil
	}
	return &rules
}
