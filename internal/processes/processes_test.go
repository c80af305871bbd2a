package processes

import (
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace-io/millrace/internal/embedded/embeddedtest"
	"github.com/millrace-io/millrace/internal/httpapi"
	"github.com/millrace-io/millrace/internal/natstest"
	"github.com/millrace-io/millrace/schemas/stream"
)

// hung is a process one of whose dependencies hangs. Its check ends after its time limit.
type hung struct{}

func (hung) Readiness() httpapi.Readiness {
	time.Sleep(2500 * time.Millisecond)
	return httpapi.Readiness{Status: "ready", Checks: []httpapi.CheckStatus{{Name: "postgres", Status: "down"}}}
}
func (hung) Health() httpapi.Health { return httpapi.Health{} }

// TestHungDependency: a process answers while a dependency of it hangs.
func TestHungDependency(t *testing.T) {
	srv := natstest.Start(t, stream.Config{})
	p, err := New("v1.0.0", []string{"query"}, Deps{
		NATS: srv.Connect(), JS: srv.JetStream(), Metrics: prometheus.NewRegistry(), Server: hung{},
		Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	embeddedtest.Go(t, p.Run)
	var all []Process
	for deadline := time.Now().Add(30 * time.Second); len(all) == 0 && time.Now().Before(deadline); {
		if all, err = p.All(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if len(all) != 1 || !all[0].Answers || !all[0].Ready || len(all[0].Checks) != 1 {
		t.Errorf("it says %+v", all)
	}
}
