package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace-io/millrace/cmd/millrace/internal/console"
	"github.com/millrace-io/millrace/internal/embedded/embeddedtest"
	"github.com/millrace-io/millrace/internal/httpapi"
	"github.com/millrace-io/millrace/internal/natstest"
	"github.com/millrace-io/millrace/internal/retry"
	"github.com/millrace-io/millrace/schemas/stream"
)

// TestPartFails: where the table of one part is gone, /health, status and a metric say so, and that it is well once the
// table is back. The others go on meanwhile.
func TestPartFails(t *testing.T) {
	var engine embeddedtest.Postgres
	engine.Start(t)
	pool := engine.Pool(t)
	settings := nodeSettings{
		http: httpSettings{Addr: freeAddr(t)}, data: t.TempDir(), postgres: pool.Config().ConnString(),
		clickhouse: &clickhouse.Options{Addr: []string{freeAddr(t)}}, // which the role needs not
	}
	if err := settings.pipeline.Stages.UnmarshalText([]byte("crawled,indexed")); err != nil {
		t.Fatal(err)
	}
	n, err := newNode(slog.New(slog.NewTextHandler(t.Output(), nil)), settings)
	if err != nil {
		t.Fatal(err)
	}
	n.supervisor.bound = 100 * time.Millisecond
	n.nats = natstest.Start(t, stream.Config{}).Connect()
	s := newStack(n.log)
	if err := n.run(t.Context(), s, roles{Ingest: true}); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.stop(t.Context(), nil); err != nil {
			t.Error(err)
		}
	}()
	w := watched{t, n}
	w.await("at first", nil)
	w.exec("ALTER TABLE millrace.act RENAME TO act_gone")
	w.await("without its table", &httpapi.Off{System: "bulk actions", Part: "actions", Reason: "act"})
	postEvent(t, settings.http.Addr)
	w.exec("ALTER TABLE millrace.act_gone RENAME TO act")
	w.await("with its table again", nil)
}

// watched is a node whose parts are watched.
type watched struct {
	*testing.T
	*node
}

func (w watched) exec(sql string) {
	w.Helper()
	if _, err := w.database.pool.Exec(w.Context(), sql); err != nil {
		w.Fatal(err)
	}
}

// await waits until /health, status and the metrics tell of this one part; nil: of none.
func (w watched) await(when string, want *httpapi.Off) {
	w.Helper()
	var health httpapi.Health
	var status string
	var fail map[string]float64
	for deadline := time.Now().Add(3 * time.Minute); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		health, status, fail = w.health(), w.status(), failing(w.T, w.registry)
		if want == nil && len(health.Off) == 0 && !strings.Contains(status, "fails") && len(fail) == 0 {
			return
		}
		if want == nil || len(health.Off) != 1 || len(fail) != 1 {
			continue
		}
		off := health.Off[0]
		if off.System == want.System && off.Part == want.Part && strings.Contains(off.Reason, want.Reason) && off.Since != nil &&
			strings.Contains(status, want.System+" is off: its part "+want.Part+" fails: "+off.Reason) &&
			fail[want.System+" "+want.Part] > 0 {
			return
		}
	}
	w.Fatalf("%s: /health has %+v, failing are %v, status:\n%s", when, health.Off, fail, status)
}

func (w watched) health() (h httpapi.Health) {
	w.Helper()
	resp, err := http.Get("http://" + w.http.Addr + "/health")
	if err != nil {
		w.Fatal(err)
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(&h); err != nil {
		w.Fatal(err)
	}
	return h
}

func (w watched) status() string {
	w.Helper()
	var out bytes.Buffer
	cmd := console.StatusCmd{}
	if err := cmd.URL.UnmarshalText([]byte(w.http.Addr)); err != nil {
		w.Fatal(err)
	}
	_ = cmd.Run(&console.Console{Ctx: w.Context(), Out: &out}) // which fails where something does not work
	return out.String()
}

// failing returns for how many seconds parts fail, of those that do, by their systems and names.
func failing(t *testing.T, registry prometheus.Gatherer) map[string]float64 {
	t.Helper()
	all, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	parts := map[string]float64{}
	for _, family := range all {
		if family.GetName() != "millrace_part_failing_seconds" {
			continue
		}
		for _, m := range family.Metric {
			if value := m.GetGauge().GetValue(); value > 0 {
				parts[m.Label[1].GetValue()+" "+m.Label[0].GetValue()] = value // by their names
			}
		}
	}
	return parts
}

// TestFailsInside: a part that goes on and fails again and again is off after a while, and on with its first success. The
// log has each of the two once.
func TestFailsInside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		registry := prometheus.NewRegistry()
		v := newSupervisor(registry, slog.New(slog.NewTextHandler(&log, nil)))
		begin := time.Now()
		v.add("one", part{"fails", func(ctx context.Context) error {
			return retry.Every(ctx, time.Second, func(context.Context) error {
				if time.Since(begin) < 10*time.Minute {
					return errors.New("broken")
				}
				return nil
			}, func(error) {})
		}})
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- v.Run(ctx) }()
		time.Sleep(failsAfter - time.Second/2)
		if off := v.off(); len(off) != 0 {
			t.Errorf("before %s: %+v", failsAfter, off)
		}
		time.Sleep(5 * time.Minute)
		if off := v.off(); len(off) != 1 || off[0].System != "one" || off[0].Part != "fails" || off[0].Reason != "broken" ||
			!off[0].Since.Equal(begin) {
			t.Errorf("%+v", off)
		}
		if got := failing(t, registry)["one fails"]; got < 350 {
			t.Errorf("failing for %f seconds", got)
		}
		time.Sleep(5 * time.Minute)
		if off := v.off(); len(off) != 0 {
			t.Errorf("after a success: %+v", off)
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		for _, line := range []string{"fails again and again", "works again"} {
			if n := strings.Count(log.String(), line); n != 1 {
				t.Errorf("the log says %d times %q:\n%s", n, line, log.String())
			}
		}
	})
}
