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

// guard brings the streams back after their disk was full. JetStream itself
// refuses every message from the first failed write on, until it is started
// again.
func (s *Server) guard(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.log.broken:
		}
		s.log.log.Error("the streams can't be written: messages are refused until there is room", "folder", s.config.StoreDir)
		if !s.mend(ctx) {
			return
		}
		s.log.log.Info("the streams can be written again")
	}
}

// mend starts JetStream again as soon as its folder can be written. It returns
// false when ctx ends before.
func (s *Server) mend(ctx context.Context) bool {
	for told := ""; ; {
		err := s.probe()
		if err == nil {
			err = s.startAgain()
		}
		if err == nil {
			return true
		}
		if told != err.Error() {
			told = err.Error()
			s.log.log.Warn("the streams' folder can't be used", "error", err, "retry_in", probeEvery)
		}
		select {
		case <-ctx.Done():
			return false
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
	if err := s.srv.ShutdownJetStream(); err != nil {
		return fmt.Errorf("stop JetStream: %w", err)
	}
	for len(s.log.broken) > 0 {
		<-s.log.broken // of the one that has ended
	}
	err := s.srv.EnableJetStream(&server.JetStreamConfig{
		StoreDir: filepath.Clean(s.opts.StoreDir), MaxMemory: s.opts.JetStreamMaxMemory, MaxStore: s.opts.JetStreamMaxStore,
		SyncAlways: s.opts.SyncAlways, SyncInterval: s.opts.SyncInterval, CompressOK: true, Strict: true,
	})
	if err != nil {
		return fmt.Errorf("start JetStream again: %w", err)
	}
	return nil
}
