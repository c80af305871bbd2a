//go:build unix

package nats

import (
	"context"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// TestNoRoom holds promise 4. A limit on the size of files stands for the full
// disk: the server makes no difference.
func TestNoRoom(t *testing.T) {
	signal.Ignore(syscall.SIGXFSZ)
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
		t.Fatal(err)
	}
	limit := func(bytes uint64) {
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: bytes, Max: before.Max}); err != nil {
			t.Fatal(err)
		}
	}
	defer limit(before.Cur)

	s, _ := run(t, Config{Listen: "127.0.0.1:0", StoreDir: t.TempDir()})
	js := connect(t, s.ClientURL(), login(t, s), nats.MaxReconnects(-1))
	makeStream(t, js)
	body := strings.Repeat("x", 64<<10)
	publish := func(limit time.Duration) error {
		ctx, cancel := context.WithTimeout(t.Context(), limit) // what can't be stored is not answered
		defer cancel()
		_, err := js.Publish(ctx, "events.a", []byte(body), jetstream.WithRetryAttempts(0))
		return err
	}
	acked := uint64(0)
	for range 4 {
		if err := publish(30 * time.Second); err != nil {
			t.Fatal(err)
		}
		acked++
	}
	limit(1 << 20)
	for publish(time.Second) == nil {
		acked++
	}
	if publish(time.Second) == nil {
		t.Error("taken without room")
	}
	limit(before.Cur)
	deadline := time.Now().Add(30 * time.Second)
	for publish(time.Second) != nil {
		if time.Now().After(deadline) {
			t.Fatal("refused although there is room")
		}
	}
	acked++
	info, err := js.Stream(t.Context(), "EVENTS")
	if err != nil {
		t.Fatal(err)
	}
	if n := info.CachedInfo().State.Msgs; n < acked {
		t.Errorf("%d messages, %d acknowledged", n, acked)
	}
}
