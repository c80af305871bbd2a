package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/internal/embedded/port"
)

// millrace is a running "millrace up" on a data folder of its own.
type millrace struct {
	*program
	data                   string // folder
	http, nats, clickhouse string // addresses
	postgres               string
	profile                string // of its profiles, when asked for
	nc                     *nats.Conn
	js                     jetstream.JetStream
	folding                time.Time // when the projector began
	announced              announced
}

// up starts the program and returns when its projector has begun to fold and it
// can be asked. Its environment has env on top.
func (b *bench) up(ctx context.Context, data string, env ...string) (*millrace, error) {
	return b.upWith(ctx, data, nil, env...)
}

// upWith is up with NATS servers that run already, unless there are none.
func (b *bench) upWith(ctx context.Context, data string, servers []string, env ...string) (*millrace, error) {
	addrs, err := port.Reserve(6)
	if err != nil {
		return nil, err
	}
	m := &millrace{
		data: data, postgres: addrs[4], http: addrs[0], nats: addrs[1], clickhouse: addrs[2],
		profile: addrs[5],
	}
	args := []string{
		"--log-format=json", "up", "--no-demo", "--ingest-rate=0", "--data=" + data,
		"--live-connections=" + strconv.Itoa(b.cfg.subscribers*2),
		"--http-addr=" + m.http, "--nats-listen=" + m.nats, "--clickhouse-listen=" + m.clickhouse,
		"--clickhouse-http=" + addrs[3], "--postgres-listen=" + addrs[4],
	}
	if len(servers) > 0 {
		urls := make([]string, len(servers))
		for i, addr := range servers {
			urls[i] = natsURL(addr)
		}
		m.nats, args = servers[0], append(args, "--nats-url="+strings.Join(urls, ","))
	}
	if b.cfg.profile != "" {
		args = append(args, "--pprof-addr="+m.profile)
	}
	if m.program, err = launch(b.cfg.bin, args,
		append(env, "MILLRACE_NATS_USER="+natsUser, "MILLRACE_NATS_PASSWORD="+natsPassword)); err != nil {
		return nil, err
	}
	if err := m.connect(ctx); err != nil {
		return nil, errors.Join(err, m.close())
	}
	return m, nil
}

func (m *millrace) connect(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	if m.folding, err = m.await(ctx, "folding"); err != nil {
		return err
	}
	if _, err = m.await(ctx, "HTTP server listens"); err != nil { // it may begin later
		return err
	}
	if m.nc, m.js, err = dial(m.nats); err != nil {
		return err
	}
	return m.announced.follow(m.nc)
}

// The login of Millrace on the servers that are measured.
const natsUser, natsPassword = "millrace", "bench"

func natsURL(addr string) string { return "nats://" + natsUser + ":" + natsPassword + "@" + addr }

func dial(addr string) (*nats.Conn, jetstream.JetStream, error) {
	nc, err := nats.Connect(natsURL(addr), nats.Name("millrace bench"))
	if err != nil {
		return nil, nil, fmt.Errorf("connect to NATS on %s: %w", addr, err)
	}
	js, err := jetstream.New(nc)
	return nc, js, err
}

func (m *millrace) close() error {
	if m.nc != nil {
		m.nc.Close()
	}
	return m.stop()
}

// funnel is the part of GET /funnel that is looked at.
type funnel struct {
	From   time.Time
	Stages []count
	Method string  `json:"unique_method"`
	Error  float64 `json:"unique_error"`
	Stream struct {
		Folded uint64 `json:"folded_seq"`
	}
}

func (m *millrace) get(ctx context.Context, path string, query url.Values, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+m.http+"/api/v1"+path+"?"+query.Encode(), nil)
	if err != nil {
		return fmt.Errorf("GET %s: %w", path, err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("GET %s: %w", path, err)
	}
	return decode(resp, http.StatusOK, into)
}

// mostExact is how many events a window may have to be counted exactly on demand.
const mostExact = 10_000_000

// check compares the funnel of all time, exact and by sketch, with the truth. Of a window
// that is too large it is not asked for exactly.
func (m *millrace) check(ctx context.Context, seq uint64, want []count) error {
	methods := []string{"exact", "sketch"}
	if total(want) > mostExact {
		methods = methods[1:]
	}
	for _, method := range methods {
		var got funnel
		for got.Stream.Folded < seq { // what was folded has yet to reach the mirror
			err := m.get(ctx, "/funnel", url.Values{"period": {"30d"}, "uniques": {method}}, &got)
			if err != nil {
				return err
			}
			time.Sleep(time.Millisecond)
		}
		if got.Method != method || !within(got.Stages, want, got.Error) {
			return fmt.Errorf("the funnel (%s) is wrong:\n%+v, generated were\n%+v", method, got.Stages, want)
		}
	}
	return nil
}

// total is the number of events of all stages.
func total(counts []count) (n uint64) {
	for _, c := range counts {
		n += c.Events
	}
	return n
}

// within compares counts exactly and articles up to a relative error.
func within(got, want []count, tolerance float64) bool {
	if len(got) != len(want) {
		return false
	}
	rounded := make([]count, len(got))
	for i, c := range got {
		rounded[i] = c
		w := float64(want[i].Articles)
		if d := float64(c.Articles) - w; d <= w*tolerance && -d <= w*tolerance {
			rounded[i].Articles = want[i].Articles
		}
	}
	return reflect.DeepEqual(rounded, want)
}
