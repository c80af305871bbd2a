package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
)

// How an outage is recorded: what is scraped before, during and after it.
const (
	scrapeEvery  = 5 * time.Second
	scrapeWait   = 3 * time.Second // a scrape that takes longer has failed
	beforeOutage = 3               // scrapes
	duringOutage = 13
	afterOutage  = 24 // backoffs are over by then
)

// outageRecorder records the metrics that alerts read, while an installation has outages.
type outageRecorder struct {
	cluster *cluster
	load    *load
	sab     *saboteur
	alerts  *alertRules
	out     io.Writer
	folder  string

	rows []scrape
}

// scrape is the values of series at one time.
type scrape map[string]string

// recordOutages records outages of one installation, one after the other.
func recordOutages(ctx context.Context, cfg config, out io.Writer) (err error) {
	all, err := outagesNamed(cfg.outages)
	if err != nil {
		return err
	}
	dir, remove, err := cfg.folder()
	if err != nil {
		return err
	}
	defer func() { fmt.Fprintln(out, remove(err != nil)) }()
	bin, err := cfg.binary(ctx, dir)
	if err != nil {
		return err
	}
	// Following all processes of an installation to set their clocks takes half of a processor.
	if slices.ContainsFunc(all, func(o outage) bool { return o.name == skewedClock }) && clocksWork() == nil {
		cfg.kinds = []kind{skewClocks}
	}
	c, err := newCluster(dir, bin, cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.removeDisks(false)) }()
	nc, err := connect(c.natsURL())
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	l, err := newLoad(c)
	if err != nil {
		return err
	}
	rules, err := readAlertRules()
	if err != nil {
		return err
	}
	w := &watch{js: js}
	r := &outageRecorder{
		cluster: c, load: l, alerts: rules, out: out, folder: cfg.record,
		sab: &saboteur{cluster: c, watch: w, out: out, injected: map[kind][]injection{}},
	}
	parts, end := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() { err = errors.Join(err, c.run(parts)) })
	wg.Go(func() { w.run(parts) })
	wg.Go(func() { l.run(parts) })
	defer wg.Wait()
	defer end()
	return r.run(ctx, all)
}

// run records each outage once all is well.
func (r *outageRecorder) run(ctx context.Context, all []outage) error {
	starting, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	if err := r.sab.watch.begun(starting); err != nil {
		return err
	}
	r.sab.allUp("at first")
	wait(ctx, 75*time.Second) // jobs run by then, and what is read rarely has been read
	for _, o := range all {
		if err := r.record(ctx, o); err != nil {
			return fmt.Errorf("record %s: %w", o.name, err)
		}
	}
	if len(r.sab.failures) > 0 {
		return errors.New(strings.Join(r.sab.failures, "; "))
	}
	return nil
}

func (r *outageRecorder) record(ctx context.Context, o outage) error {
	fmt.Fprintf(r.out, "%s %s\n", time.Now().Format(time.TimeOnly), o.name)
	r.rows = nil
	r.scrapes(ctx, beforeOutage)
	during := max(o.scrapes, duringOutage)
	if o.begin == nil { // nothing happens
		r.scrapes(ctx, during-beforeOutage)
		return r.write(ctx, o, len(r.rows), 0)
	}
	end, err := o.begin(r)
	if err != nil {
		return err
	}
	r.scrapes(ctx, during)
	if err := end(); err != nil {
		return err
	}
	r.sab.allUp("after " + o.name)
	r.scrapes(ctx, max(o.settles, afterOutage))
	return r.write(ctx, o, beforeOutage, during)
}

// scrapes scrapes all processes some times.
func (r *outageRecorder) scrapes(ctx context.Context, times int) {
	for range times {
		next := time.After(scrapeEvery)
		r.rows = append(r.rows, r.scrape())
		select {
		case <-next:
		case <-ctx.Done():
			return
		}
	}
}

// scrape asks all processes at one time, as Prometheus would: what is not answered in time
// is down.
func (r *outageRecorder) scrape() scrape {
	row := scrape{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, p := range r.cluster.scraped() {
		wg.Go(func() {
			text, err := fetchWithin(scrapeWait, "http://"+p.http()+"/metrics")
			mu.Lock()
			defer mu.Unlock()
			own := fmt.Sprintf("instance=%q,job=%q", p.name, "millrace")
			row["up{"+own+"}"] = "1"
			if err != nil {
				row["up{"+own+"}"] = "0"
				return
			}
			r.alerts.keep(row, text, own)
		})
	}
	wg.Wait()
	if text, err := exposition(r.load.metrics); err == nil {
		r.alerts.keep(row, text, `instance="client",job="crawler"`)
	}
	return row
}

func exposition(reg *prometheus.Registry) (string, error) {
	families, err := reg.Gather()
	if err != nil {
		return "", err
	}
	var text bytes.Buffer
	for _, f := range families {
		if _, err := expfmt.MetricFamilyToText(&text, f); err != nil {
			return "", err
		}
	}
	return text.String(), nil
}

// scraped are the processes with metrics that are to run.
func (c *cluster) scraped() []*process {
	return append([]*process{c.ingest, c.otherIngest, c.query, c.projectors[0], c.projectors[1]}, c.schedulers...)
}

// publishRaw publishes what no client of Millrace would.
func (c *cluster) publishRaw(ctx context.Context, subject string, body []byte) error {
	nc, err := nats.Connect(c.publishURL(), nats.Timeout(time.Second))
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	_, err = js.Publish(ctx, subject, body)
	return err
}

// write writes a recording: a line for each series with its values, or _ where it was not
// there, of which n*v stands for n equal ones.
func (r *outageRecorder) write(ctx context.Context, o outage, before, during int) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	names := map[string]bool{}
	for _, row := range r.rows {
		for name := range row {
			names[name] = true
		}
	}
	var text strings.Builder
	fmt.Fprintf(&text, "# Recorded from a running installation by: make alerts ARGS=%q\n", "-outages "+o.name)
	fmt.Fprintf(&text, "before %d during %d after %d, a scrape every %s\n", before, during, len(r.rows)-before-during,
		scrapeEvery)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		fmt.Fprintf(&text, "%s\t%s\n", name, r.values(name))
	}
	if err := os.MkdirAll(r.folder, 0o755); err != nil {
		return err
	}
	var small bytes.Buffer
	zip := gzip.NewWriter(&small) // without a time, so that it depends on the text alone
	if _, err := zip.Write([]byte(text.String())); err != nil {
		return err
	}
	if err := zip.Close(); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.folder, o.name+".txt.gz"), small.Bytes(), 0o644)
}

// values are those of one series in all scrapes.
func (r *outageRecorder) values(name string) string {
	var out []string
	for i := 0; i < len(r.rows); {
		value, n := r.rows[i].value(name), 1
		for i+n < len(r.rows) && r.rows[i+n].value(name) == value {
			n++
		}
		if i += n; n > 1 {
			value = fmt.Sprintf("%d*%s", n, value)
		}
		out = append(out, value)
	}
	return strings.Join(out, " ")
}

func (s scrape) value(name string) string {
	if v, ok := s[name]; ok {
		return v
	}
	return "_"
}
