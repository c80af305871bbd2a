package clickhouse

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"
)

// ending is a session that notes its end.
type ending struct {
	session
	closed bool
}

func (e *ending) close() { e.closed = true }

// use takes a session and gives it back.
func use(t *testing.T, s *sessions, who account, id string, stays time.Duration) *ending {
	t.Helper()
	named, err := s.take(sessionKey{who, id}, sessionRequest{}, func() (session, error) { return &ending{}, nil })
	if err != nil {
		t.Fatal(err)
	}
	s.give(sessionKey{who, id}, named, stays)
	return named.session.(*ending)
}

// TestSessionsExpire: a session ends when it is idle for its time, and not before.
func TestSessionsExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &sessions{all: map[sessionKey]*namedSession{}}
		idle := use(t, s, writer, "idle", time.Minute)
		used := use(t, s, writer, "used", time.Minute)
		time.Sleep(40 * time.Second)
		if again := use(t, s, writer, "used", time.Minute); again != used {
			t.Error("the session is another one")
		}
		time.Sleep(40 * time.Second)
		synctest.Wait()
		if !idle.closed || used.closed || len(s.all) != 1 {
			t.Errorf("after a minute %d are left, idle: %v, used: %v", len(s.all), !idle.closed, !used.closed)
		}
		s.stop()
		if !used.closed {
			t.Error("a session outlives the server")
		}
		if _, err := s.take(sessionKey{writer, "late"}, sessionRequest{}, nil); err == nil {
			t.Error("a session begins when the server stops")
		}
	})
}

// TestSessionsFull: a login that has all sessions it can have loses the one that
// is idle for longest; those of the other login stay.
func TestSessionsFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &sessions{all: map[sessionKey]*namedSession{}}
		defer s.stop()
		other := use(t, s, writer, "other", time.Hour)
		all := make([]*ending, 0, maxSessions+1)
		for i := range maxSessions + 1 {
			all = append(all, use(t, s, reader, strconv.Itoa(i), time.Hour))
			time.Sleep(time.Millisecond)
		}
		if !all[0].closed || all[1].closed || other.closed || len(s.all) != maxSessions+1 {
			t.Errorf("%d are left, oldest: %v, next: %v, other login: %v", len(s.all), !all[0].closed, !all[1].closed,
				!other.closed)
		}
		for key, named := range s.all {
			named.busy = key.who == reader
		}
		if _, err := s.take(sessionKey{reader, "more"}, sessionRequest{}, nil); err == nil ||
			asException(err).Code != codeTooMany {
			t.Errorf("one more than there can be: %v", err)
		}
	})
}
