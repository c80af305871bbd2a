package queues

import (
	"context"
	"net/url"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/internal/auth"
	"github.com/millrace-io/millrace/internal/tracking/trackingtest"
	"github.com/millrace-io/millrace/query/live"
)

// nobody has private items.
type nobody struct{}

func (nobody) Groups(context.Context, string, string) ([]string, error) { return nil, nil }

// TestUnstorable: what Postgres cannot store as text is refused by its rule, or is
// no queue's name.
func TestUnstorable(t *testing.T) {
	s := trackingtest.New(t, &engine)
	s.Serve(auth.New(auth.Config{}), New(live.TransitionsConfig{}, s.UserQueues("mail"), nobody{}))
	if status, text := s.Get("/queues/mail/items?group=g&key=k"); status != 200 {
		t.Errorf("%d %s", status, text)
	}
	for _, value := range []string{"\x00", "\xff\xfe", "a\nb"} {
		for _, field := range []string{"group", "key"} {
			status, text := s.Get("/queues/mail/items?" + field + "=" + url.QueryEscape(value))
			if status != 400 || !strings.Contains(text, `"field":"`+field+`"`) {
				t.Errorf("%s %q: %d %s", field, value, status, text)
			}
		}
		for _, path := range []string{"", "/items", "/items/1"} {
			if status, text := s.Get("/queues/mail" + url.PathEscape(value) + path); status != 404 {
				t.Errorf("%q%s: %d %s", value, path, status, text)
			}
		}
	}
}
