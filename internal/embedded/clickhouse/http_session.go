package clickhouse

import (
	"net/url"
	"sync"
	"time"
)

const (
	codeNoSession      = 372
	codeSessionLocked  = 373
	codeSessionTimeout = 374

	sessionTimeout    = 60   // seconds that a session stays without a request
	maxSessionTimeout = 3600 // that a client may ask for
	maxSessions       = 128  // of each login; the one that is idle for longest gives way
)

// sessionRequest is what a request says about its session.
type sessionRequest struct {
	id      string // none: a session of its own
	timeout time.Duration
	check   bool // the session has to exist
	end     bool // it ends with the request
}

func readSessionRequest(values url.Values) (s sessionRequest, err error) {
	s.id = values.Get("session_id")
	s.check, s.end = isOn(values.Get("session_check")), isOn(values.Get("close_session"))
	seconds, err := number(values, "session_timeout", sessionTimeout)
	if err != nil || seconds > maxSessionTimeout {
		return s, exception(codeSessionTimeout, "INVALID_SESSION_TIMEOUT",
			"Session timeout %s: it can be a number of seconds up to %d",
			values.Get("session_timeout"), maxSessionTimeout)
	}
	s.timeout = time.Duration(seconds) * time.Second
	return s, nil
}

// sessionKey names a session: the logins have their own.
type sessionKey struct {
	who account
	id  string
}

// sessions are those that clients name by session_id. One request at a time uses
// a session.
type sessions struct {
	mu  sync.Mutex
	all map[sessionKey]*namedSession // nil once the server stops
}

type namedSession struct {
	session
	busy    bool
	idle    time.Time // since when
	expires *time.Timer
}

// take returns the session of a request for its own use until give.
func (s *sessions) take(key sessionKey, want sessionRequest, open func() (session, error)) (*namedSession, error) {
	named, known, err := s.reserve(key, want.check)
	if known || err != nil {
		return named, err
	}
	if named.session, err = open(); err != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.all, key)
		return nil, err
	}
	return named, nil
}

// reserve finds a session that is known, or makes room for a new one.
func (s *sessions) reserve(key sessionKey, check bool) (named *namedSession, known bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	named, known = s.all[key]
	switch {
	case s.all == nil:
		return nil, false, exception(codeCancelled, "QUERY_WAS_CANCELLED", "The server stops")
	case known && named.busy:
		return nil, false, exception(codeSessionLocked, "SESSION_IS_LOCKED",
			"Session %s is locked by a concurrent client", key.id)
	case known:
		named.busy = true
		named.expires.Stop()
		return named, true, nil
	case check:
		return nil, false, exception(codeNoSession, "SESSION_NOT_FOUND", "Session %s not found", key.id)
	case !s.makeRoom(key.who):
		return nil, false, exception(codeTooMany, "TOO_MANY_SIMULTANEOUS_QUERIES", "There are too many sessions: %d",
			maxSessions)
	}
	named = &namedSession{busy: true}
	s.all[key] = named
	return named, false, nil
}

// makeRoom ends the session of a login that is idle for longest, if the login
// has all that it can have.
func (s *sessions) makeRoom(who account) bool {
	var oldest sessionKey
	count, found := 0, false
	for key, named := range s.all {
		if key.who != who {
			continue
		}
		count++
		if !named.busy && (!found || named.idle.Before(s.all[oldest].idle)) {
			oldest, found = key, true
		}
	}
	if count < maxSessions {
		return true
	}
	if found {
		s.end(oldest)
	}
	return found
}

// give ends a request's use of a session, which lasts for a time thereafter or
// ends at once.
func (s *sessions) give(key sessionKey, named *namedSession, stays time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil || stays <= 0 {
		delete(s.all, key)
		named.close()
		return
	}
	named.busy, named.idle = false, time.Now()
	named.expires = time.AfterFunc(stays, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.all[key] == named && !named.busy && time.Since(named.idle) >= stays {
			s.end(key)
		}
	})
}

// end closes a session that is idle.
func (s *sessions) end(key sessionKey) {
	s.all[key].expires.Stop()
	s.all[key].close()
	delete(s.all, key)
}

// stop ends all sessions, once no request uses one.
func (s *sessions) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key := range s.all {
		s.end(key)
	}
	s.all = nil
}

// requestSession opens the session of a request, or takes the one that it names.
func (s *Server) requestSession(from origin, req *request) (sess session, release func(error), err error) {
	if req.session.id == "" {
		sess, err = s.openSession(from, req.database)
		if err != nil {
			return nil, nil, err
		}
		return sess, func(error) { sess.close() }, nil
	}
	key := sessionKey{from.who, req.session.id}
	named, err := s.named.take(key, req.session, func() (session, error) { return s.openSession(from, "") })
	if err != nil {
		return nil, nil, err
	}
	stays := req.session.timeout
	if req.session.end {
		stays = 0
	}
	leave, err := named.enter(from, req.database)
	if err != nil {
		s.named.give(key, named, stays)
		return nil, nil, err
	}
	return named, func(err error) {
		if isStuck(err) {
			stays = 0
		} else if req.statement.Verb != "USE" {
			leave()
		}
		s.named.give(key, named, stays)
	}, nil
}
