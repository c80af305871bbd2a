package emit

import (
	"context"
	"encoding/hex"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/millrace-io/millrace/schemas/event"
)

// TestLossesWithoutALogger holds invariant 3 for a service that gives no logger:
// slog's default gets a line for each event that is lost, when it is lost.
func TestLossesWithoutALogger(t *testing.T) {
	logs, before := &lines{}, slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(logs, nil)))
	defer slog.SetDefault(before)
	hang, asked := make(chan struct{}), make(chan struct{}, 100)
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked <- struct{}{}; <-hang }))
	defer s.Close()
	defer close(hang)
	c, err := Open(Options{URL: s.URL, Service: "crawler", Buffer: 2, Timeout: time.Hour})
	must(t, err)
	must(t, c.Emit(t.Context(), crawled(0)))
	<-asked

	if err := c.EmitBatch(t.Context(), crawledUpTo(4)); !errors.Is(err, ErrDropped) {
		t.Error(err)
	}
	for n := 1; n < 4; n++ {
		hash := recordOf(t, crawled(n)).URLHash
		logs.await(t, "pipeline event not emitted", "stage=crawled", "url_hash="+hex.EncodeToString(hash[:4]),
			"service=crawler", "event dropped")
	}
	misspelt := crawled(9)
	misspelt.Metadata = map[string]any{"qualityScore": 78}
	var invalid *event.Invalid
	if err := c.Emit(t.Context(), misspelt); !errors.As(err, &invalid) || invalid.Code != "metadata_misspelt" {
		t.Error(err)
	}
	hash := recordOf(t, crawled(9)).URLHash
	logs.await(t, "pipeline event not emitted", "stage=crawled", "url_hash="+hex.EncodeToString(hash[:4]),
		"service=crawler", "quality_score")

	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.Close(gone); !errors.Is(err, ErrUndelivered) {
		t.Error(err)
	}
	if n := logs.count("events were not delivered"); n != 2 {
		t.Errorf("%d lines tell of the 2 events that were left", n)
	}
	dropped, refused := testutil.ToFloat64(c.metrics.emits.WithLabelValues("error", "crawled")),
		testutil.ToFloat64(c.metrics.emits.WithLabelValues("error", ""))
	if dropped < 5 || refused != 1 || c.Health().Dropped != 5 {
		t.Errorf("%v are counted as errors and %v as refused: %+v", dropped, refused, c.Health())
	}
}

// TestManyLosses: a service's log is not drowned, and nothing is kept from it.
func TestManyLosses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logs := &lines{}
		l := &lostLog{log: slog.New(slog.NewTextHandler(logs, nil)), service: "crawler"}
		for range 250 {
			l.report(brief{stage: "crawled"}, ErrDropped)
		}
		if n := logs.count("pipeline event not emitted"); n != lostLines {
			t.Errorf("%d lines at once, want %d", n, lostLines)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if n := logs.count(`"more pipeline events not emitted" service=crawler events=150`); n != 1 {
			t.Errorf("%d lines tell of the others", n)
		}
		l.report(brief{stage: "crawled"}, ErrDropped)
		if n := logs.count("pipeline event not emitted"); n != lostLines+1 {
			t.Errorf("%d lines, want one more than %d", n, lostLines)
		}
	})
}
