package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/synadia-io/orbit.go/jetstreamext"

	"github.com/millrace-io/millrace/client"
)

const (
	singleClients = 16
	batchClients  = 4
	batchSize     = 500
)

// post measures what many HTTP clients get through, beside clients that
// publish the same to the same NATS server without HTTP.
func (b *bench) post(ctx context.Context) error {
	m, err := b.ready(ctx)
	if err != nil {
		return err
	}
	b.say("posting over HTTP")
	c := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: singleClients}}
	defer c.CloseIdleConnections()
	loads := map[string]load{}
	for _, kind := range []struct {
		name    string
		clients int
		do      func(context.Context) error
	}{
		{"single", singleClients, func(ctx context.Context) error { return m.send(ctx, c, "/events", b.posts.text()) }},
		{"publish", singleClients, func(ctx context.Context) error { return b.publishOne(ctx, m.js) }},
		{"batch", batchClients, func(ctx context.Context) error {
			return m.send(ctx, c, "/events/batch", b.posts.batch())
		}},
		{"atomic", batchClients, func(ctx context.Context) error { return b.publishBatch(ctx, m.js) }},
	} {
		l, err := press(ctx, kind.clients, b.window(), 0, kind.do)
		if err != nil {
			return fmt.Errorf("%s: %w", kind.name, err)
		}
		loads[kind.name] = l
		if err := b.awaitFolded(ctx, m); err != nil {
			return err
		}
	}
	single, publish, batch, atomic := loads["single"], loads["publish"], loads["batch"], loads["atomic"]
	const s = "http"
	b.add(
		line{
			s, "single events, 16 clients", "events/s", more, single.rate(), "NATS publish, 16 clients",
			publish.rate(),
		},
		line{s, "single events: median", "ms", less, single.at(.5), "NATS publish", publish.at(.5)},
		line{s, "single events: 99th percentile", "ms", less, single.at(.99), "NATS publish", publish.at(.99)},
		line{
			s, "batches of 500, 4 clients", "events/s", more, batchSize * batch.rate(),
			"NATS atomic batches, 4 clients", batchSize * atomic.rate(),
		},
		line{s, "batches of 500: requests", "requests/s", more, batch.rate(), "NATS atomic batches", atomic.rate()},
		line{s, "batches of 500: median", "ms", less, batch.at(.5), "NATS atomic batches", atomic.at(.5)},
		line{s, "batches of 500: 99th percentile", "ms", less, batch.at(.99), "NATS atomic batches", atomic.at(.99)},
	)
	return nil
}

func (p *posts) batch() []byte {
	body := bytes.NewBufferString(`{"events":[`)
	for i := range batchSize {
		if i > 0 {
			body.WriteByte(',')
		}
		body.Write(p.text())
	}
	body.WriteString("]}")
	return body.Bytes()
}

func (b *bench) publishOne(ctx context.Context, js jetstream.JetStream) error {
	m, err := b.posts.message()
	if err != nil {
		return err
	}
	_, err = js.PublishMsg(ctx, natsMessage(m))
	return err
}

func (b *bench) publishBatch(ctx context.Context, js jetstream.JetStream) error {
	msgs := make([]*nats.Msg, batchSize)
	for i := range msgs {
		m, err := b.posts.message()
		if err != nil {
			return err
		}
		msgs[i] = natsMessage(m)
	}
	_, err := jetstreamext.PublishMsgBatch(ctx, js, msgs, jetstreamext.BatchFlowControl{})
	return err
}

// natsMessage is what Millrace's own publishers send of a message.
func natsMessage(m client.Message) *nats.Msg {
	return &nats.Msg{Subject: m.Subject, Data: m.Data, Header: nats.Header{}}
}
