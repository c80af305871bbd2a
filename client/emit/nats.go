package emit

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/millrace-io/millrace/client/publish"
)

// natsTransport publishes on JetStream, over a connection that it makes with
// the first batch. One goroutine uses it.
type natsTransport struct {
	opts      Options
	nc        *nats.Conn
	publisher *publish.Publisher
}

func (t *natsTransport) deliver(ctx context.Context, batch []item) ([]publish.Outcome, error) {
	if err := t.connect(); err != nil {
		return nil, err
	}
	msgs := make([]publish.Message, len(batch))
	for i := range batch {
		msgs[i] = batch[i].msg
	}
	outcomes, _ := t.publisher.PublishRaw(ctx, msgs) // each outcome has its error
	for _, o := range outcomes {
		if o.Status == publish.Failed && !final(o.Err) {
			return outcomes, o.Err
		}
	}
	return outcomes, nil
}

func (t *natsTransport) connect() error {
	if t.publisher != nil && !t.nc.IsClosed() {
		return nil
	}
	log := t.opts.Log
	nc, err := nats.Connect(t.opts.URL, append([]nats.Option{
		nats.Name(t.opts.Service), nats.Timeout(t.opts.Timeout), nats.RetryOnFailedConnect(true),
		nats.MaxReconnects(-1),
		nats.ReconnectWait(250 * time.Millisecond), nats.ReconnectJitter(250*time.Millisecond, 250*time.Millisecond),
		// A server that has gone without a word is left after 15 s at most.
		nats.PingInterval(5 * time.Second), nats.MaxPingsOutstanding(2),
		// A password may be put right on the server's side.
		nats.IgnoreAuthErrorAbort(),
		// Without a buffer an outage is an error at once.
		nats.ReconnectBufSize(-1),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			log.Warn("NATS reports", "error", err)
		}),
	}, t.opts.NATS...)...)
	if err != nil {
		// Its text may hold the address with a password.
		return fmt.Errorf("connect to NATS: %s", strings.ReplaceAll(err.Error(), t.opts.URL, "its address"))
	}
	// The breaker and its log are the client's own: retries inside of an
	// attempt are quiet.
	publisher, err := publish.New(nc, publish.Config{
		Service: t.opts.Service, Attempt: t.opts.Timeout, AcceptRepeats: true,
	})
	if err != nil {
		nc.Close()
		return err
	}
	t.nc, t.publisher = nc, publisher
	return nil
}

func (t *natsTransport) close() {
	if t.nc != nil {
		t.nc.Close()
	}
}
