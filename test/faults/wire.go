package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	toxiproxy "github.com/Shopify/toxiproxy/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/millrace-io/millrace/schemas/stream"
)

// wire is a connection between some of the roles and a server.
type wire struct {
	listen string
	proxy  *toxiproxy.Proxy

	mu     sync.Mutex
	cuts   int // faults that want no connection
	serial int // of toxics
}

func newWire(listen, target string) *wire {
	zerolog.SetGlobalLevel(zerolog.Disabled) // some toxics log by themselves
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(prometheus.NewRegistry()), zerolog.Nop())
	return &wire{listen: listen, proxy: toxiproxy.NewProxy(server, target, listen, target)}
}

// run forwards connections until ctx ends.
func (w *wire) run(ctx context.Context) error {
	if err := w.proxy.Start(); err != nil {
		return fmt.Errorf("listen for %s: %w", w.proxy.Upstream, err)
	}
	<-ctx.Done()
	w.proxy.Stop()
	return nil
}

// cut ends all connections and refuses new ones until the end.
func (w *wire) cut() (end func() error, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cuts++
	w.proxy.Stop()
	return func() error {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.cuts--; w.cuts > 0 {
			return nil
		}
		return w.proxy.Start()
	}, nil
}

// mute lets what is asked through, but no answer back, until the end; all
// connections are lost then. What was asked has been done, and nobody knows.
func (w *wire) mute() (end func() error, err error) {
	return w.spoil("timeout", map[string]int{"timeout": 0}, "downstream")
}

// delay holds everything back, each way, by about as long.
func (w *wire) delay(by time.Duration) (end func() error, err error) {
	ms := int(by.Milliseconds())
	return w.spoil("latency", map[string]int{"latency": ms, "jitter": ms / 2}, "upstream", "downstream")
}

// throttle lets so many kilobytes a second through, each way.
func (w *wire) throttle(rate int) (end func() error, err error) {
	return w.spoil("bandwidth", map[string]int{"rate": rate}, "upstream", "downstream")
}

// tear ends each connection after so many bytes towards the server: in the
// middle of an insert, or of a message.
func (w *wire) tear(after int) (end func() error, err error) {
	return w.spoil("limit_data", map[string]int{"bytes": after}, "upstream")
}

// reset ends each connection soon after something was sent over it, at once and
// with all that is still under way.
func (w *wire) reset(after time.Duration) (end func() error, err error) {
	return w.spoil("reset_peer", map[string]int{"timeout": int(after.Milliseconds())}, "upstream")
}

// spoil adds a toxic in some directions.
func (w *wire) spoil(toxic string, attributes map[string]int, directions ...string) (end func() error, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var names []string
	for _, direction := range directions {
		w.serial++
		name := fmt.Sprintf("%s-%d", toxic, w.serial)
		body, err := json.Marshal(map[string]any{
			"name": name, "type": toxic, "stream": direction,
			"attributes": attributes,
		})
		if err != nil {
			return nil, err
		}
		if _, err := w.proxy.Toxics.AddToxicJson(strings.NewReader(string(body))); err != nil {
			return nil, fmt.Errorf("%s towards %s: %w", toxic, w.proxy.Upstream, err)
		}
		names = append(names, name)
	}
	return func() error {
		for _, name := range names {
			// What is still held back has to go through first.
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			defer cancel()
			if err := w.proxy.Toxics.RemoveToxic(ctx, name); err != nil {
				return fmt.Errorf("%s towards %s: %w", toxic, w.proxy.Upstream, err)
			}
		}
		return nil
	}, nil
}

// wires lead to one server, or to each of several that do the same.
type wires []*wire

func newWires(take func(n int) []string, targets ...string) (all wires) {
	for _, target := range targets {
		all = append(all, newWire(take(1)[0], target))
	}
	return all
}

// each begins the same with every wire.
func (ws wires) each(begin func(*wire) (end func() error, err error)) (end func() error, err error) {
	var ends []func() error
	var errs []error
	for _, w := range ws {
		end, err := begin(w)
		if errs = append(errs, err); err == nil {
			ends = append(ends, end)
		}
	}
	return func() error {
		var errs []error
		for _, end := range ends {
			errs = append(errs, end())
		}
		return errors.Join(errs...)
	}, errors.Join(errs...)
}

func (ws wires) mute() (end func() error, err error) { return ws.each((*wire).mute) }

func (ws wires) cut() (end func() error, err error) { return ws.each((*wire).cut) }

func (ws wires) delay(by time.Duration) (end func() error, err error) {
	return ws.each(func(w *wire) (func() error, error) { return w.delay(by) })
}

func (ws wires) throttle(rate int) (end func() error, err error) {
	return ws.each(func(w *wire) (func() error, error) { return w.throttle(rate) })
}

func (ws wires) tear(after int) (end func() error, err error) {
	return ws.each(func(w *wire) (func() error, error) { return w.tear(after) })
}

func (ws wires) reset(after time.Duration) (end func() error, err error) {
	return ws.each(func(w *wire) (func() error, error) { return w.reset(after) })
}

// links are the wires by which a role reaches NATS, each node of it, ClickHouse
// and Postgres.
type links struct{ nats, clickhouse, postgres wires }

func (l links) natsURL(role string) string {
	var addrs []string
	for _, w := range l.nats {
		addrs = append(addrs, w.listen)
	}
	return natsURL(addrs, role)
}

// natsURL is where a role connects.
func natsURL(addrs []string, role string) string {
	login := "nats://" + role + ":" + password + "@"
	return login + strings.Join(addrs, ","+login)
}

// env tells a role of them.
func (l links) env() []string {
	return []string{
		"MILLRACE_NATS_URL=" + l.natsURL(stream.RoleMillrace),
		"MILLRACE_CLICKHOUSE_DSN=clickhouse://default:" + chPassword + "@" + l.clickhouse[0].listen + "/millrace",
	}
}
