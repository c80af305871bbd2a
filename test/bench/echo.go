package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/gorilla/websocket"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/schemas/stream"
)

// echoes measures the least that a live view on JetStream takes: publish until
// acknowledged, a consumer, a WebSocket, and no database.
func (b *bench) echoes(ctx context.Context, n int) (took []time.Duration, err error) {
	dir, err := b.folder("echo-*")
	if err != nil {
		return nil, err
	}
	addr, server, err := natsServer(dir, 0)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, server.stop()) }()
	nc, js, err := dial(addr)
	if err != nil {
		return nil, err
	}
	defer nc.Close()
	if err := stream.Ensure(ctx, js, stream.Config{}); err != nil {
		return nil, err
	}
	ws, stop, err := forward(ctx, js)
	if err != nil {
		return nil, err
	}
	defer stop()
	for range n {
		pause()
		m, err := b.echoed.message()
		if err != nil {
			return nil, err
		}
		start := time.Now()
		if _, err := js.PublishMsg(ctx, natsMessage(m)); err != nil {
			return nil, fmt.Errorf("publish: %w", err)
		}
		if _, _, err := ws.ReadMessage(); err != nil {
			return nil, fmt.Errorf("read the WebSocket: %w", err)
		}
		took = append(took, time.Since(start))
	}
	return took, nil
}

// forward sends what a consumer gets to a WebSocket, and returns its other end.
func forward(ctx context.Context, js jetstream.JetStream) (*websocket.Conn, func(), error) {
	c, err := js.CreateConsumer(ctx, stream.Events, jetstream.ConsumerConfig{AckPolicy: jetstream.AckNonePolicy})
	if err != nil {
		return nil, nil, fmt.Errorf("create consumer: %w", err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	srv := &http.Server{
		ReadHeaderTimeout: time.Second,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			var upgrader websocket.Upgrader
			ws, err := upgrader.Upgrade(w, r, nil)
			if err != nil {
				return // it has answered
			}
			reading, err := c.Consume(func(m jetstream.Msg) { _ = ws.WriteMessage(websocket.TextMessage, m.Data()) })
			if err != nil {
				ws.Close()
				return
			}
			defer reading.Stop()
			_, _, _ = ws.ReadMessage() // until the other end closes
		}),
	}
	go func() { _ = srv.Serve(l) }() // ends with Close
	ws, _, err := websocket.DefaultDialer.DialContext(ctx, "ws://"+l.Addr().String(), nil)
	if err != nil {
		return nil, nil, errors.Join(err, srv.Close())
	}
	return ws, func() { ws.Close(); srv.Close() }, nil
}
