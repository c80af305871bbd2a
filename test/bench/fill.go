package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/millrace-io/millrace/client"
	"github.com/millrace-io/millrace/schemas/stream"
)

// fill publishes a history to a NATS server that nobody reads from, in atomic
// batches as clients do.
func fill(ctx context.Context, addr string, h *history) error {
	nc, js, err := dial(addr)
	if err != nil {
		return err
	}
	defer nc.Close()
	if err := stream.Ensure(ctx, js, stream.Config{}); err != nil {
		return err
	}
	publisher, err := client.New(nc, client.Config{})
	if err != nil {
		return err
	}
	const step = 4000
	for from := 0; from < len(h.moments); from += step {
		// One batch at a time keeps the stream in the order of time.
		msgs, err := h.messages(from, min(from+step, len(h.moments)))
		if err != nil {
			return err
		}
		for ; len(msgs) > 0; msgs = msgs[min(1000, len(msgs)):] {
			if _, err := publisher.PublishRaw(ctx, msgs[:min(1000, len(msgs))]); err != nil {
				return err
			}
		}
	}
	s, err := js.Stream(ctx, stream.Events)
	if err != nil {
		return fmt.Errorf("read the stream: %w", err)
	}
	if got := s.CachedInfo().State.LastSeq; got != uint64(len(h.moments)) {
		return fmt.Errorf("the stream has %d events after %d were published", got, len(h.moments))
	}
	return nil
}

// filled returns a new data folder whose stream holds the history, and nothing
// else. The stream is filled once and then copied.
func (b *bench) filled(ctx context.Context) (string, error) {
	template := filepath.Join(b.dir, "template")
	if _, err := os.Stat(template); errors.Is(err, os.ErrNotExist) {
		b.say("filling a stream with %d events", b.cfg.events)
		// Nothing is measured here, so it need not be synced often.
		addr, p, err := natsServer(template, time.Minute)
		if err != nil {
			return "", err
		}
		if err := errors.Join(fill(ctx, addr, b.history), p.stop(), synced(template)); err != nil {
			return "", fmt.Errorf("fill the stream: %w", err)
		}
	}
	dir, err := b.folder("data-*")
	if err != nil {
		return "", err
	}
	if err := os.CopyFS(dir, os.DirFS(template)); err != nil {
		return "", fmt.Errorf("copy the stream: %w", err)
	}
	return dir, synced(dir)
}

// synced has all files below a folder on the disk: the system writes what is not half a
// minute later, in the middle of what is measured then.
func synced(dir string) error {
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		file, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			return err
		}
		return errors.Join(file.Sync(), file.Close())
	})
	if err != nil {
		return fmt.Errorf("sync %s: %w", dir, err)
	}
	return nil
}

// folder makes a folder that other users may pass through: Postgres may run as
// one of them.
func (b *bench) folder(pattern string) (string, error) {
	dir, err := os.MkdirTemp(b.dir, pattern)
	if err != nil {
		return "", fmt.Errorf("make a folder: %w", err)
	}
	return dir, os.Chmod(dir, 0o711)
}
