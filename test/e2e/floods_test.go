package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/millrace-io/millrace/schemas/stream"
)

// testFloods: requests of every kind that somebody without a login may send, thousands a
// second and without reading the answers, keep no daemon from its items and stop no view. What
// a stream keeps is not among them: nothing bounds how much a producer may publish. The rate
// is limited, since requests at full speed take the processor from every process.
func testFloods(t *testing.T, s *server) {
	c := &crowd{T: t, s: s}
	const queue = "flooded"
	if status, body := s.with(t, token(t, "admin"), http.MethodPost, "/queues",
		`{"name":"`+queue+`","max_attempts":0,"lease_s":2}`); status != http.StatusCreated {
		t.Fatalf("status %d: %s", status, body)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	sent := 0
	for _, r := range stream.Roles() {
		if r.Name != stream.RoleLocal {
			continue
		}
		for _, subject := range r.Requests {
			if strings.Contains(subject, "CONSUMER.MSG.NEXT") || strings.HasPrefix(subject, "$JS.ACK") {
				continue // testPulls has these
			}
			if strings.HasSuffix(subject, ".>") || strings.HasPrefix(subject, "events.") {
				continue // a stream keeps what is published there
			}
			subject = strings.NewReplacer("WORK.*", "WORK."+queue, "*", "flood", ">", "flood").Replace(subject)
			sent++
			all.Go(func() { c.flood(ctx, subject) })
		}
	}
	if sent < 5 {
		t.Fatalf("%d kinds of requests", sent)
	}
	daemon := c.connect()
	for i := range 5 {
		begin := time.Now()
		c.add(queue, 20)
		c.plain(daemon, queue, 10)
		c.client(queue, 10)
		t.Logf("20 items in %s", time.Since(begin).Round(time.Millisecond))
		s.patient(t, "an event", func() (int, []byte) {
			return s.with(t, token(t, "events:write"), http.MethodPost, "/events", valid(map[string]any{
				"source_name": "flooded", "article_url": fmt.Sprint("https://example.com/flooded/", i),
			}))
		})
		poll(t, waitLimit, "an event to be counted beside a flood", func() bool {
			status, body := s.with(t, token(t, "read"), http.MethodGet, "/funnel?period=24h&source=flooded", "")
			var f funnel
			return status == http.StatusOK && json.Unmarshal(body, &f) == nil && f.Stages[0].Events == i+1
		})
	}
}

// flood sends requests over one connection until ctx ends, and reads no answer.
func (c *crowd) flood(ctx context.Context, subject string) {
	nc, err := nats.Connect(c.s.natsURL(), c.login...)
	if err != nil {
		c.Error(err)
		return
	}
	defer nc.Close()
	inbox := nats.NewInbox()
	sub, err := nc.SubscribeSync(inbox)
	if err != nil {
		c.Error(err)
		return
	}
	_ = sub.SetPendingLimits(100, 1<<20)
	bodies := []string{``, `{}`, `{"subjects_filter":">","deleted_details":true}`, `[`, strings.Repeat("x", 4<<10)}
	for ctx.Err() == nil {
		for i := range 500 {
			if nc.PublishRequest(subject, inbox, []byte(bodies[i%len(bodies)])) != nil {
				return
			}
		}
		if nc.FlushTimeout(waitLimit) != nil {
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(250 * time.Millisecond):
		}
	}
}
