package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/millrace-io/millrace/internal/backup/postgres"
	"github.com/millrace-io/millrace/schemas/stream"
)

// postgresWait is how long Postgres may answer nobody before what reads or fills it is given up.
const postgresWait = 2 * time.Minute

// moment copies Postgres and the streams that its transactions govern as of one time (5).
func (s *saver) moment(ctx context.Context, left map[string]bool) error {
	return s.whilePostgresAnswers(ctx, func(ctx context.Context) error { return s.momentOf(ctx, left) })
}

// whilePostgresAnswers gives up what waits for a server that has stopped. An installation without Postgres has no such server.
func (in Installation) whilePostgresAnswers(ctx context.Context, do func(context.Context) error) error {
	if in.Postgres == "" {
		return do(ctx)
	}
	return postgres.WhileAnswering(ctx, in.Postgres, postgresWait, do)
}

func (s *saver) momentOf(ctx context.Context, left map[string]bool) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	var copies errgroup.Group
	defer func() {
		if err != nil {
			cancel()
		}
		err = errors.Join(err, copies.Wait())
		cancel()
	}()
	meanwhile := func(ctx context.Context) error {
		if err := s.readRecord(ctx, batchesKey); err != nil {
			return err
		}
		if left[stream.WorkAcks] {
			delete(left, stream.WorkAcks)
			write, err := s.hold(ctx, stream.WorkAcks)
			if err != nil {
				return err
			}
			copies.Go(write)
		}
		for _, name := range []string{stream.Sources, stream.BatchesRead} {
			if !left[name] {
				continue
			}
			delete(left, name)
			c, err := BeginCopy(ctx, s.NATS, name)
			if err != nil {
				return err
			}
			s.info.Streams[name] = c.StreamInfo
			copies.Go(func() error {
				return s.set.Write(ctx, streamFile(name), func(to io.Writer) error { return c.WriteTo(ctx, to) })
			})
		}
		return nil
	}
	if s.Postgres == "" {
		return meanwhile(ctx)
	}
	m, err := postgres.Freeze(ctx, s.Postgres, meanwhile)
	if err != nil {
		return err
	}
	defer m.Close()
	info, err := m.Save(ctx, func(name string, write func(io.Writer) error) error {
		return s.set.Write(ctx, name, write)
	})
	if err != nil {
		return err
	}
	return s.set.Note(postgres.Store, info)
}

// hold copies a stream to this machine, and returns what writes the copy into the set: what waits for the copy need not
// wait for S3.
func (s *saver) hold(ctx context.Context, name string) (write func() error, err error) {
	file, err := os.CreateTemp("", "millrace-backup-*")
	if err != nil {
		return nil, fmt.Errorf("copy stream %s: %w", name, err)
	}
	end := func(err error) error { return errors.Join(err, file.Close(), os.Remove(file.Name())) }
	c, err := BeginCopy(ctx, s.NATS, name)
	if err == nil {
		err = c.WriteTo(ctx, file)
	}
	if err == nil {
		_, err = file.Seek(0, io.SeekStart)
	}
	if err != nil {
		return nil, end(err)
	}
	s.info.Streams[name] = c.StreamInfo
	return func() error {
		return end(s.set.Write(ctx, streamFile(name), func(to io.Writer) error {
			_, err := io.Copy(to, file)
			return err
		}))
	}, nil
}
