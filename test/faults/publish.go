package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/millrace-io/millrace/client"
	"github.com/millrace-io/millrace/schemas/event"
)

// publishers send a history and note what is acknowledged.
type publishers struct {
	ledger *ledger
	nats   *client.Publisher
	js     jetstream.JetStream
	// withIDs has all messages over NATS go with an id, as peers want them.
	withIDs bool
	url     string // of the batch route
	web     *http.Client
	clock   *clock // of ingest
}

func newPublishers(l *ledger, nc *nats.Conn, ingest string) (*publishers, error) {
	p, err := client.New(nc, client.Config{Attempt: 2 * time.Second})
	if err != nil {
		return nil, err
	}
	js, err := jetstream.New(nc, jetstream.WithPublishAsyncTimeout(5*time.Second))
	if err != nil {
		return nil, err
	}
	return &publishers{
		ledger: l, nats: p, js: js, url: "http://" + ingest + "/api/v1/events/batch",
		web: &http.Client{Timeout: 8 * time.Second},
	}, nil
}

// run sends deliveries, one a tick, until sending ends, and returns when all
// of them are acknowledged or patience ends. Several publishers work side by
// side, so that deliveries overtake each other.
func (p *publishers) run(sending, patience context.Context, h *history) error {
	queue := make(chan delivery)
	g, patience := errgroup.WithContext(patience)
	for range 6 {
		g.Go(func() error {
			for d := range queue {
				if err := p.deliver(patience, d); err != nil {
					return err
				}
			}
			return nil
		})
	}
	every := time.NewTicker(tick)
	defer every.Stop()
	for sending.Err() == nil && patience.Err() == nil {
		select {
		case <-every.C:
			// While all publishers wait, the history does too.
			select {
			case queue <- h.next():
			case <-patience.Done():
			}
		case <-sending.Done():
		}
	}
	close(queue)
	return g.Wait()
}

// deliver publishes until everything is acknowledged, each time with the same
// identities.
func (p *publishers) deliver(ctx context.Context, d delivery) error {
	send := p.overNATS
	if d.http {
		send = p.overHTTP
	} else {
		p.ledger.sending(d.items)
	}
	err := backoff.Do(ctx, func() (err error) {
		if d.items, err = send(ctx, d.items); len(d.items) == 0 {
			return nil
		}
		return fmt.Errorf("%d messages are not acknowledged: %w", len(d.items), err)
	}, nil)
	return err
}

// overNATS publishes items in their turns. What is to come last waits until all
// others are acknowledged.
func (p *publishers) overNATS(ctx context.Context, items []item) (left []item, err error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	for _, t := range []turn{stockFirst, own, stockLast} {
		var now, later []item
		for _, it := range items {
			if it.turn == t {
				now = append(now, it)
			} else {
				later = append(later, it)
			}
		}
		send := p.stock
		if t == own && !p.withIDs {
			send = p.publish
		}
		left, err := send(ctx, now)
		if items = append(left, later...); err != nil {
			return items, err
		}
	}
	return nil, nil
}

func (p *publishers) publish(ctx context.Context, items []item) (left []item, err error) {
	msgs := make([]client.Message, len(items))
	var r event.Record
	for i, it := range items {
		msgs[i] = client.Message{Subject: it.subject, Data: []byte(it.body)}
		if it.fact != nil && event.Decode(msgs[i].Data, &r) == nil {
			msgs[i] = client.EventMessage(&r, msgs[i].Data)
		}
	}
	outcomes, err := p.nats.PublishRaw(ctx, msgs)
	var done []item
	for i, o := range outcomes {
		if o.Status != client.Failed {
			done = append(done, items[i])
			continue
		}
		left = append(left, items[i])
		if !errors.Is(o.Err, client.ErrUnknown) {
			p.ledger.fail("publish over NATS: %v", o.Err)
		}
	}
	p.ledger.acknowledged(done)
	return left, err
}

// stock publishes as a client does that knows of NATS alone.
func (p *publishers) stock(ctx context.Context, items []item) (left []item, err error) {
	sent := make([]jetstream.PubAckFuture, len(items))
	for i, it := range items {
		if sent[i], err = p.js.PublishAsync(it.subject, []byte(it.body), jetstream.WithMsgID(it.msgID)); err != nil {
			return items, err // some may be sent again
		}
	}
	var done []item
	for i, f := range sent {
		select {
		case <-f.Ok():
			done = append(done, items[i])
			continue
		case err = <-f.Err():
		case <-ctx.Done():
			err = ctx.Err()
		}
		left = append(left, items[i])
	}
	p.ledger.acknowledged(done)
	return left, err
}

// overHTTP publishes a batch as lines. Events that break a rule must be
// refused, each by its place, and are done with then.
func (p *publishers) overHTTP(ctx context.Context, items []item) (left []item, err error) {
	var body bytes.Buffer
	var valid, timely []item
	bad := map[int]bool{}
	begin := time.Now()
	for i, it := range items {
		body.WriteString(it.body + "\n")
		if it.fact != nil {
			timely = append(timely, it)
		}
		if it.fact == nil || !it.fact.valid(begin) {
			bad[i] = true
		} else {
			valid = append(valid, it)
		}
	}
	if p.clock == nil {
		timely = valid
	}
	p.ledger.sending(timely)
	status, answer, err := p.post(ctx, &body)
	if err != nil || status == http.StatusServiceUnavailable || status == http.StatusTooManyRequests {
		return items, errors.Join(err, fmt.Errorf("status %d: %.200s", status, answer))
	}
	if !p.clock.right(begin) {
		valid, bad = byOtherClock(answer, items)
	}
	if err := agree(status, answer, len(valid), bad); err != nil {
		p.ledger.fail("POST of %d valid events and %d others: %v", len(valid), len(bad), err)
		return items, err
	}
	p.ledger.acknowledged(valid)
	return nil, nil
}

// byOtherClock tells what is valid for ingest while its clock is wrong: what it
// refuses for its time is not, and what it refuses has gone nowhere.
func byOtherClock(answer []byte, items []item) (valid []item, bad map[int]bool) {
	var r struct {
		Rejected []struct {
			Index int
			Error struct{ Field string }
		}
	}
	_ = json.Unmarshal(answer, &r) // who compares will see
	bad = map[int]bool{}
	for _, refused := range r.Rejected {
		if refused.Error.Field == "occurred_at" {
			bad[refused.Index] = true
		}
	}
	for i, it := range items {
		if it.fact == nil {
			bad[i] = true
		}
		if !bad[i] {
			valid = append(valid, it)
		}
	}
	return valid, bad
}

func (p *publishers) post(ctx context.Context, body io.Reader) (int, []byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url, body)
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Content-Type", "application/x-ndjson")
	resp, err := p.web.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	return resp.StatusCode, answer, err
}

// agree compares the answer with what has to be in it.
func agree(status int, answer []byte, valid int, bad map[int]bool) error {
	var r struct {
		Accepted, Duplicates int
		Rejected             []struct{ Index int }
	}
	if err := json.Unmarshal(answer, &r); err != nil {
		return fmt.Errorf("status %d: %w: %.200s", status, err, answer)
	}
	right := r.Accepted+r.Duplicates == valid && len(r.Rejected) == len(bad)
	for _, item := range r.Rejected {
		right = right && bad[item.Index]
	}
	if !right || (status >= 300) != (valid == 0) {
		return fmt.Errorf("status %d: %.300s", status, strings.TrimSpace(string(answer)))
	}
	return nil
}
