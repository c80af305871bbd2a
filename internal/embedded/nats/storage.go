package nats

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

const (
	probeBytes = 8 << 20
	probeEvery = 250 * time.Millisecond
)

// stopLimit is how long JetStream may take to stop: it closes files.
const stopLimit = 10 * time.Second

// ErrStuck is the error of a JetStream that does not stop: in nats-server
// 2.15.2 a purge that finds the disk full waits for itself (compactLocked,
// which holds the store's lock, and rebuildState). Only a new process helps.
var ErrStuck = errors.New("the streams are locked up since their disk was full, as nats-server 2.15.2 may be: " +
	"only a new process can use them; what was acknowledged is on disk")

// guard brings the streams back after their disk was full, until ctx ends.
// JetStream itself refuses every message from the first failed write on, until
// it is started again. The error is ErrStuck.
func (s *Server) guard(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.log.broken:
		}
		s.log.log.Error("the streams can't be written: messages are refused until there is room",
			"folder", s.config.StoreDir)
		if err := s.mend(ctx); err != nil || ctx.Err() != nil {
			return err
		}
		s.log.log.Info("the streams can be written again")
	}
}

// mend starts JetStream again as soon as its folder can be written, or returns
// when ctx ends. The error is ErrStuck.
func (s *Server) mend(ctx context.Context) error {
	for told := ""; ; {
		err := s.probe()
		if err == nil {
			err = s.startAgain()
		}
		if err == nil || errors.Is(err, ErrStuck) {
			return err
		}
		if told != err.Error() {
			told = err.Error()
			s.log.log.Warn("the streams' folder can't be used", "error", err, "retry_in", probeEvery)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(probeEvery):
		}
	}
}

// probe writes a file beside the streams.
func (s *Server) probe() error {
	f, err := os.Create(filepath.Join(s.config.StoreDir, "probe"))
	if err != nil {
		return fmt.Errorf("write to the streams' folder: %w", err)
	}
	defer os.Remove(f.Name())
	_, err = f.Write(make([]byte, probeBytes))
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("write to the streams' folder: %w", err)
	}
	return nil
}

// startAgain reads the streams from disk, where all that was acknowledged is.
// Clients stay connected.
func (s *Server) startAgain() error {
	stopped := make(chan error, 1)
	go func() { stopped <- s.srv.ShutdownJetStream() }()
	select {
	case err := <-stopped:
		if err != nil {
			return fmt.Errorf("stop JetStream: %w", err)
		}
	case <-time.After(stopLimit):
		return ErrStuck
	}
	for len(s.log.broken) > 0 {
		<-s.log.broken // of the one that has ended
	}
	err := s.srv.EnableJetStream(&server.JetStreamConfig{
		StoreDir: filepath.Clean(s.opts.StoreDir), MaxMemory: s.opts.JetStreamMaxMemory,
		MaxStore:   s.opts.JetStreamMaxStore,
		SyncAlways: s.opts.SyncAlways, SyncInterval: s.opts.SyncInterval, CompressOK: true, Strict: true,
	})
	if err != nil {
		return fmt.Errorf("start JetStream again: %w", err)
	}
	return nil
}
