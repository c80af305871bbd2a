package trackingtest

import (
	"net/http"
	"strings"
	"time"

	"github.com/millrace-io/millrace/internal/acts"
	"github.com/millrace-io/millrace/internal/auth"
	"github.com/millrace-io/millrace/internal/embedded/embeddedtest"
	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/internal/userqueue"
)

// Secret signs the tokens of Login.
const Secret = "a secret of more than thirty-two bytes"

// Login has the following requests come from a user with some scopes. With the scope "" they have no token.
func (s *Site) Login(name string, scopes ...auth.Scope) {
	s.T.Helper()
	if s.Token = ""; scopes[0] == "" {
		return
	}
	var err error
	if s.Token, err = auth.Mint(Secret, name, scopes, time.Hour); err != nil {
		s.T.Fatal(err)
	}
}

// UserQueues returns the user-defined queues of the site, after it has created those that are named.
func (s *Site) UserQueues(names ...string) *userqueue.Store {
	s.T.Helper()
	store, err := userqueue.New(s.Store.Queues())
	if err != nil {
		s.T.Fatal(err)
	}
	for _, name := range names {
		v := queue.Settings{Name: name, LeaseS: 30, RetentionS: 60, MaxItems: 100}
		if _, err := store.Create(s.T.Context(), v); err != nil {
			s.T.Fatal(err)
		}
	}
	return store
}

// Acts returns the bulk actions of the site.
func (s *Site) Acts(subjects ...acts.Subject) *acts.Store {
	s.T.Helper()
	store, err := acts.New(s.Store.Queues(), embeddedtest.Log(s.T))
	if err != nil {
		s.T.Fatal(err)
	}
	for _, subject := range subjects {
		store.Add(subject)
	}
	return store
}

// CheckActScope holds that only operators begin an act, and that the idempotency key of one caller is not that of
// another. The server's secret is Secret, and there are no acts before.
func (s *Site) CheckActScope(path, body string) {
	s.T.Helper()
	begin := func(name string, scope auth.Scope) (int, string) {
		s.Login(name, scope)
		return s.PostWith(http.Header{"Idempotency-Key": {"k"}}, path, body)
	}
	for _, scope := range append(auth.Scopes(), "") {
		want := map[auth.Scope]int{"": 401, auth.Admin: 201}[scope]
		if want == 0 {
			want = 403
		}
		if status, text := begin("ann", scope); status != want || want != 201 && strings.Contains(text, "matched") {
			s.T.Errorf("%q: %d %s, want %d", scope, status, text, want)
		}
	}
	var a acts.Act
	status, text := begin("bob", auth.Admin)
	if s.Into(&a, 201, status, text); a.By != "bob" || a.ID != 2 {
		s.T.Errorf("with the key of another caller: %s", text)
	}
	if all, err := s.Acts().List(s.T.Context(), 0, 10); err != nil || len(all) != 2 {
		s.T.Errorf("%d acts were begun, %v", len(all), err)
	}
}
