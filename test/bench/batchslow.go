package main

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// Of the bucket that answers slowly.
const (
	slowBucket = "slow"
	slowAnswer = 2 * time.Second // before each object
	// slowBatches are so many that some are left when the others have been measured.
	slowBatches = 500
)

var slow = crawlJob{job: "bench-slow-0", errors: []int{7}, code: "CONTENT_REMOVED"}

// slowBucket measures how long batches of a bucket take, then while many batches of another
// bucket wait whose storage is slow, and then without these again. Objects come from a server of
// S3, which this is.
func (b *bench) slowBucket(ctx context.Context) (err error) {
	n := min(max(b.cfg.items/5000, 20), 100)
	var isSlow atomic.Bool
	addr, stop, err := serveObjects(&isSlow)
	if err != nil {
		return err
	}
	data := filepath.Join(b.dir, "slow")
	m, err := b.up(ctx, data, "MILLRACE_S3_ENDPOINT=http://"+addr, "MILLRACE_S3_REGION=us-east-1")
	if err != nil {
		return errors.Join(err, stop())
	}
	defer func() { err = errors.Join(err, m.close(), stop(), os.RemoveAll(data)) }()
	if _, err := m.await(ctx, "millrace is up"); err != nil {
		return err
	}
	next := 0
	measure := func(n int) (load, error) {
		next += n
		return m.batchLatency(ctx, ordinary, batchBucket, next-n, n)
	}
	if _, err := measure(20); err != nil { // a cold start is none of theirs
		return err
	}
	b.say("batches of one bucket")
	alone, err := measure(n)
	if err != nil {
		return err
	}
	b.say("batches of one bucket, while another one is slow")
	isSlow.Store(true)
	if err := m.announce(ctx, slow, slowBucket, slowBatches); err != nil {
		return err
	}
	beside, err := measure(2 * n)
	if err != nil {
		return err
	}
	isSlow.Store(false)
	if err := m.awaitBatches(ctx, slow, slowBatches); err != nil {
		return err
	}
	b.say("batches of one bucket again")
	again, err := measure(n)
	if err != nil {
		return err
	}
	alone.latency = slices.Sorted(slices.Values(append(alone.latency, again.latency...)))
	const s, by = "batches", "before and after"
	b.add(
		line{s, "beside a slow bucket with a backlog: median", "ms", less, beside.at(.5), by, alone.at(.5)},
		line{s, "beside a slow bucket with a backlog: 95th percentile", "ms", less, beside.at(.95), by, alone.at(.95)},
	)
	return nil
}

// awaitBatches waits until so many batches of a job are stored.
func (m *millrace) awaitBatches(ctx context.Context, c crawlJob, n int) error {
	for sums := (batchSums{}); sums.Batches < n; time.Sleep(100 * time.Millisecond) {
		if err := m.get(ctx, "/batches/summary", url.Values{"job_id": {c.job}}, &sums); err != nil {
			return err
		}
	}
	return nil
}

// serveObjects serves the same batch as every object; those of the slow bucket, while it is slow, after a while.
func serveObjects(isSlow *atomic.Bool) (addr string, stop func() error, err error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	content, at := string(ordinary.batch(0)), time.Now()
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if isSlow.Load() && strings.HasPrefix(r.URL.Path, "/"+slowBucket+"/") {
			select {
			case <-time.After(slowAnswer):
			case <-r.Context().Done():
				return
			}
		}
		w.Header().Set("ETag", `"0"`)
		http.ServeContent(w, r, "batch.json", at, strings.NewReader(content))
	})}
	go func() { _ = server.Serve(listener) }() // it ends with Close
	return listener.Addr().String(), server.Close, nil
}
