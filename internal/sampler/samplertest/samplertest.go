// Package samplertest reads sources of gauges in tests.
package samplertest

import (
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"

	"github.com/millrace-io/millrace/internal/sampler"
)

// Read reads sources once and returns what they export then, by series, beside the
// sampler's own gauges. A source that cannot be read exports nothing.
func Read(t *testing.T, sources ...sampler.Source) map[string]string {
	t.Helper()
	reg := prometheus.NewPedanticRegistry()
	s, err := sampler.New(reg, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	for _, source := range sources {
		if err := s.Add(source); err != nil {
			t.Fatal(err)
		}
	}
	s.Read(context.WithoutCancel(t.Context()))
	return Gather(t, reg)
}

// Gather returns the values of all series of a registry, as texts.
func Gather(t *testing.T, reg prometheus.Gatherer) map[string]string {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for _, f := range families {
		if _, err := expfmt.MetricFamilyToText(&text, f); err != nil {
			t.Fatal(err)
		}
	}
	series := map[string]string{}
	for line := range strings.Lines(text.String()) {
		if at := strings.LastIndexByte(line, ' '); at > 0 && !strings.HasPrefix(line, "#") {
			series[line[:at]] = strings.TrimSpace(line[at:])
		}
	}
	return series
}
