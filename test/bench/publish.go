package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/synadia-io/orbit.go/jetstreamext"
	"golang.org/x/sync/errgroup"

	"github.com/millrace-io/millrace/schemas/stream"
)

// publish measures "millrace emit" into a NATS server alone, which syncs each
// batch to disk, beside the ways of nats.go to do so; then into a running
// program that folds meanwhile.
func (b *bench) publish(ctx context.Context) error {
	if b.running != nil { // it would only be in the way
		err := b.running.close()
		if b.running = nil; err != nil {
			return err
		}
	}
	file, err := b.file()
	if err != nil {
		return err
	}
	b.say("publishing")
	rates := map[string]float64{}
	for _, way := range []struct {
		name string
		n    int // messages: those that are slow or held in memory are fewer
		do   func(context.Context, string, int) error
	}{
		{"emit", b.cfg.events, func(ctx context.Context, addr string, n int) error { return b.emit(ctx, file, addr, n) }},
		{"atomic", min(b.cfg.events, 200_000), nil},
		{"async", min(b.cfg.events, 20_000), nil},
	} {
		rate, err := b.publishAlone(ctx, way.name, way.n, way.do)
		if err != nil {
			return fmt.Errorf("%s: %w", way.name, err)
		}
		rates[way.name] = rate
	}
	emitted, folded, err := b.emitAndFold(ctx, file)
	if err != nil {
		return err
	}
	const s = "publish"
	b.add(
		line{s, "emit into NATS alone", "events/s", more, rates["emit"], "atomic batches, ready made", rates["atomic"]},
		line{s, "", "events/s", more, rates["emit"], "asynchronous, one by one", rates["async"]},
		line{s, "emit while the projector folds", "events/s", more, emitted, "emit into NATS alone", rates["emit"]},
		line{s, "emitted and folded", "events/s", more, folded, "", 0},
	)
	return nil
}

// file writes the history as JSON lines, once.
func (b *bench) file() (string, error) {
	path := filepath.Join(b.dir, "events.jsonl")
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	f, err := os.Create(path)
	if err != nil {
		return "", fmt.Errorf("write the events: %w", err)
	}
	w := bufio.NewWriter(f)
	var text []byte
	for i := range b.history.moments {
		text = append(b.history.appendJSON(text[:0], i), '\n')
		if _, err := w.Write(text); err != nil {
			return "", errors.Join(err, f.Close())
		}
	}
	return path, errors.Join(w.Flush(), f.Close())
}

// publishAlone publishes n events to a new server and returns the rate. Where
// do is nil, the messages are made before the clock starts.
func (b *bench) publishAlone(ctx context.Context, name string, n int, do func(context.Context, string, int) error) (rate float64, err error) {
	dir, err := b.folder("publish-*")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	addr, server, err := natsServer(dir, 0)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, server.stop()) }()
	nc, js, err := dial(addr)
	if err != nil {
		return 0, err
	}
	defer nc.Close()
	if err := stream.Ensure(ctx, js, stream.Config{}); err != nil {
		return 0, err
	}
	if do == nil {
		msgs, err := b.made(n)
		if err != nil {
			return 0, err
		}
		do = func(ctx context.Context, _ string, _ int) error { return ways[name](ctx, js, msgs) }
	}
	begin := time.Now()
	if err := do(ctx, addr, n); err != nil {
		return 0, err
	}
	rate = float64(n) / time.Since(begin).Seconds()
	s, err := js.Stream(ctx, stream.Events)
	if err != nil {
		return 0, fmt.Errorf("read the stream: %w", err)
	}
	if got := s.CachedInfo().State.Msgs; got != uint64(n) {
		return 0, fmt.Errorf("the stream has %d events of %d", got, n)
	}
	return rate, nil
}

func (b *bench) made(n int) ([]*nats.Msg, error) {
	all, err := b.history.messages(0, n)
	if err != nil {
		return nil, err
	}
	msgs := make([]*nats.Msg, n)
	for i, m := range all {
		msgs[i] = natsMessage(m.Subject, m.ID, m.Data)
	}
	return msgs, nil
}

// ways to publish with nats.go and the library of atomic batches.
var ways = map[string]func(context.Context, jetstream.JetStream, []*nats.Msg) error{
	"atomic": func(ctx context.Context, js jetstream.JetStream, msgs []*nats.Msg) error {
		g, ctx := errgroup.WithContext(ctx)
		g.SetLimit(4)
		for ; len(msgs) > 0; msgs = msgs[min(1000, len(msgs)):] {
			batch := msgs[:min(1000, len(msgs))]
			g.Go(func() error {
				_, err := jetstreamext.PublishMsgBatch(ctx, js, batch, jetstreamext.BatchFlowControl{})
				return err
			})
		}
		return g.Wait()
	},
	"async": func(ctx context.Context, js jetstream.JetStream, msgs []*nats.Msg) error {
		for _, m := range msgs {
			if _, err := js.PublishMsgAsync(m, jetstream.WithStallWait(time.Minute)); err != nil {
				return err
			}
		}
		select {
		case <-js.PublishAsyncComplete():
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	},
}

// emit runs "millrace emit" on the file of n events.
func (b *bench) emit(ctx context.Context, file, addr string, n int) error {
	cmd := exec.CommandContext(ctx, b.cfg.bin, "emit", file, "--nats-url=nats://"+addr)
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%w: %s", err, errOut.Bytes())
	}
	if want := fmt.Sprintf("accepted=%d duplicates=0 rejected=0 ", n); !strings.HasPrefix(out.String(), want) {
		return fmt.Errorf("emit says %q, and not %s", out.String(), want)
	}
	return nil
}

// emitAndFold emits into a running program and waits until all is folded.
func (b *bench) emitAndFold(ctx context.Context, file string) (emitted, folded float64, err error) {
	dir, err := b.folder("emit-*")
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	m, err := b.up(ctx, dir)
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, m.close()) }()
	begin := time.Now()
	if err := b.emit(ctx, file, m.nats, b.cfg.events); err != nil {
		return 0, 0, err
	}
	sent := time.Since(begin)
	end, err := m.folded(ctx, uint64(b.cfg.events))
	if err != nil {
		return 0, 0, err
	}
	n := float64(b.cfg.events)
	return n / sent.Seconds(), n / end.Sub(begin).Seconds(), m.check(ctx, uint64(b.cfg.events), b.history.truth())
}
