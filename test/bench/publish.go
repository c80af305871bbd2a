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

	"github.com/nats-io/nats.go/jetstream"

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
	batched, err := b.made(min(b.cfg.events, 200_000))
	if err != nil {
		return err
	}
	single, err := b.made(min(b.cfg.events, 20_000)) // of its own: batches add headers
	if err != nil {
		return err
	}
	rates := map[string]float64{}
	for _, way := range []struct {
		name string
		n    int // messages: of those that are slow or held in memory fewer
		do   publisher
	}{
		{"emit", b.cfg.events, func(ctx context.Context, addr string, _ jetstream.JetStream) error {
			return b.emit(ctx, file, addr, b.cfg.events)
		}},
		{"atomic", len(batched), atomicBatches(batched)},
		{"async", len(single), asynchronous(single)},
	} {
		if rates[way.name], err = b.publishAlone(ctx, way.n, way.do); err != nil {
			return fmt.Errorf("%s: %w", way.name, err)
		}
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

// publisher publishes to a server with empty streams.
type publisher func(ctx context.Context, addr string, js jetstream.JetStream) error

// publishAlone publishes n events to a new server and returns the rate.
func (b *bench) publishAlone(ctx context.Context, n int, do publisher) (rate float64, err error) {
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
	begin := time.Now()
	if err := do(ctx, addr, js); err != nil {
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

// emit runs "millrace emit" on the file of n events.
func (b *bench) emit(ctx context.Context, file, addr string, n int) error {
	cmd := exec.CommandContext(ctx, b.cfg.bin, "emit", file, "--nats-url="+natsURL(addr))
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
	return b.emitInto(ctx, m, file)
}

// emitInto emits into a running program, waits until all is folded, and checks it.
func (b *bench) emitInto(ctx context.Context, m *millrace, file string) (emitted, folded float64, err error) {
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
