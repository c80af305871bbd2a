package reads

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-io/millrace/internal/auth"
	"github.com/millrace-io/millrace/internal/httpapi"
	"github.com/millrace-io/millrace/internal/slowtest"
)

// callerOf is a context of a caller's request.
func callerOf(t *testing.T, subject string) context.Context {
	t.Helper()
	return auth.WithCaller(t.Context(), auth.Caller{Subject: subject})
}

// TestPlacesShares: nobody gets more than a share, what is free goes to who holds the fewest,
// and who gets none is told the true reason.
func TestPlacesShares(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewPlaces("exports", 4, 2)
		enter := func(caller string) (leave func(), err error) {
			ctx, cancel := context.WithTimeout(callerOf(t, caller), time.Second)
			defer cancel()
			return p.Enter(ctx)
		}
		refused := func(caller, reason string) {
			t.Helper()
			_, err := enter(caller)
			var told *httpapi.Problem
			if !errors.As(err, &told) || told.Status != http.StatusServiceUnavailable ||
				!strings.Contains(told.Detail, reason) || told.GetHeaders().Get("Retry-After") == "" {
				t.Errorf("%s: %v, want a problem that says %q", caller, err, reason)
			}
		}
		var leaves []func()
		for range 2 {
			leave, err := enter("a")
			if err != nil {
				t.Fatal(err)
			}
			leaves = append(leaves, leave)
		}
		refused("a", "2 exports of yours are under way")
		for _, other := range []string{"b", "c"} {
			leave, err := enter(other)
			if err != nil {
				t.Fatalf("%s has no place while a holds its share: %v", other, err)
			}
			leaves = append(leaves, leave)
		}
		refused("d", "4 exports are under way")

		// b asked first, and holds one already.
		got := make(chan string)
		for _, caller := range []string{"b", "d"} {
			go func() {
				leave, err := p.Enter(callerOf(t, caller))
				if err == nil {
					got <- caller
					leave()
				}
			}()
			synctest.Wait()
		}
		leaves[0]()
		if first := <-got; first != "d" {
			t.Errorf("the place went to %s, which holds one already", first)
		}
		if second := <-got; second != "b" {
			t.Errorf("the place went to %s", second)
		}
		for _, leave := range leaves {
			leave()
		}
		synctest.Wait()
		if p.taken != 0 || len(p.held) != 0 || len(p.waiting) != 0 {
			t.Errorf("%d places are taken, of %v", p.taken, p.held)
		}
	})
}

// TestPlacesSlowReader: while somebody waits, a reader that takes little is cut off, and one
// that takes enough is not.
func TestPlacesSlowReader(t *testing.T) {
	slowtest.Mark(t)
	synctest.Test(t, func(t *testing.T) {
		p := NewPlaces("exports", 2, 0)
		var readers sync.WaitGroup
		defer readers.Wait()
		read := func(pause time.Duration) (ended chan error) {
			leave, err := p.Enter(callerOf(t, "a"))
			if err != nil {
				t.Fatal(err)
			}
			ctx, cut := context.WithCancel(t.Context())
			in, out := io.Pipe()
			context.AfterFunc(ctx, func() { _ = in.CloseWithError(errors.New("cut off")) })
			w, done := p.reading(out, cut)
			readers.Go(func() {
				for b := make([]byte, 64<<10); ; time.Sleep(pause) {
					if _, err := in.Read(b); err != nil {
						return
					}
				}
			})
			ended = make(chan error, 1)
			go func() { // the export
				defer leave()
				defer done()
				for end := time.Now().Add(time.Minute); time.Now().Before(end); {
					if _, err := w.Write(make([]byte, 64<<10)); err != nil {
						ended <- err
						return
					}
				}
				cut()
				ended <- nil
			}()
			return ended
		}
		slow, quick := read(10*time.Second), read(time.Millisecond)
		leave, err := p.Enter(callerOf(t, "a"))
		if err != nil {
			t.Fatal(err)
		}
		if err := <-slow; err == nil {
			t.Error("the slow reader keeps its place")
		}
		leave()
		if err := <-quick; err != nil {
			t.Error("the quick reader is cut off, too:", err)
		}
	})
}
