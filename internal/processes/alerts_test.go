package processes

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"
)

// TestConditions: each condition stands so in the rule of its alert.
func TestConditions(t *testing.T) {
	text, err := os.ReadFile("../../deploy/prometheus/rules.yml")
	if err != nil {
		t.Fatal(err)
	}
	var rules struct {
		Groups []struct {
			Rules []struct{ Alert, Expr string }
		}
	}
	if err := yaml.Unmarshal(text, &rules); err != nil {
		t.Fatal(err)
	}
	exprs := map[string]string{}
	for _, g := range rules.Groups {
		for _, r := range g.Rules {
			exprs[r.Alert] = strings.Join(strings.Fields(strings.NewReplacer("(", " ", ")", " ", "[5m]", "").Replace(r.Expr)), " ")
		}
	}
	for _, c := range Conditions {
		all := append([]Condition{c}, c.And...)
		if c.Unless != nil {
			all = append(all, *c.Unless)
		}
		for _, one := range all {
			want := fmt.Sprintf("%s %s %v", one.Metric, one.Op, one.Limit)
			if one.Of != "" {
				want += " * " + one.Of
			}
			if !strings.Contains(" "+exprs[c.Alert]+" ", " "+want+" ") {
				t.Errorf("%s: the rule %q has no %q", c.Alert, exprs[c.Alert], want)
			}
		}
	}
}

// TestAlerts: an alert is told with the labels of the gauge whose condition holds.
func TestAlerts(t *testing.T) {
	disk := map[string]string{"folder": "."}
	got := alerts(map[string][]Gauge{
		"millrace_dependency_up":             {{"millrace_dependency_up", map[string]string{"dependency": "nats"}, 1}},
		"millrace_outbox_oldest_age_seconds": {{"millrace_outbox_oldest_age_seconds", map[string]string{"stream": "WORK"}, 121}},
		"millrace_nats_clock_offset_seconds": {{"millrace_nats_clock_offset_seconds", nil, -61}},
		"millrace_disk_free_bytes":           {{"millrace_disk_free_bytes", disk, 9}, {"millrace_disk_free_bytes", nil, 1}},
		"millrace_disk_size_bytes":           {{"millrace_disk_size_bytes", disk, 100}},
	})
	want := `[{MillraceOutboxWaiting millrace_outbox_oldest_age_seconds{stream="WORK"} 121} ` +
		`{MillraceClockWrong millrace_nats_clock_offset_seconds -61} {MillraceDiskLow millrace_disk_free_bytes{folder="."} 9}]`
	if fmt.Sprint(got) != want {
		t.Errorf("%v, want %s", got, want)
	}
}

// TestReplaced: a process that was killed and started again is not told of as silent.
func TestReplaced(t *testing.T) {
	silent := Process{ID: "a", Host: "h", Roles: []string{"query"}}
	silent.SeenAt = silent.StartedAt.Add(1)
	later := Process{ID: "b", Host: "h", Roles: []string{"query"}, Answers: true, StartedAt: silent.SeenAt.Add(1)}
	beside, elsewhere, other := later, later, later
	beside.StartedAt, elsewhere.Host, other.Roles = silent.StartedAt, "i", []string{"ingest"}
	for i, c := range []struct {
		by   Process
		want bool
	}{{later, true}, {beside, false}, {elsewhere, false}, {other, false}} {
		if got := replaced(silent, map[string]Process{"a": silent, "b": c.by}); got != c.want {
			t.Errorf("%d: %t", i, got)
		}
	}
}

// TestAlertsOfSeveralGauges: an alert is told only if all of its rule holds.
func TestAlertsOfSeveralGauges(t *testing.T) {
	queue := func(running, paused float64) map[string][]Gauge {
		mail, other := map[string]string{"queue": "mail"}, map[string]string{"queue": "other"}
		return map[string][]Gauge{
			"millrace_queue_oldest_ready_age_seconds": {{"age", mail, 3601}},
			"millrace_queue_running":                  {{"running", other, 1}, {"running", mail, running}},
			"millrace_queue_paused":                   {{"paused", mail, paused}},
		}
	}
	for want, metrics := range map[string]map[string][]Gauge{
		"[{MillraceQueueNotTaken age{queue=\"mail\"} 3601}]": queue(0, 0),
		"[{MillraceQueueBacklog age{queue=\"mail\"} 3601}]":  queue(2, 0),
		"[]": queue(0, 1),
		"[{MillraceMirrorBehind mirror 301}]": {
			"millrace_mirror_behind_seconds": {{"mirror", nil, 301}}, "millrace_projector_behind_seconds": {{"projector", nil, 300}},
		},
		"[{MillraceViewsBehind projector 301}]": {
			"millrace_mirror_behind_seconds": {{"mirror", nil, 301}}, "millrace_projector_behind_seconds": {{"projector", nil, 301}},
		},
	} {
		if got := fmt.Sprint(alerts(metrics)); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
