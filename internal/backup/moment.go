package backup

import (
	"context"
	"errors"
	"io"

	"golang.org/x/sync/errgroup"

	"github.com/millrace-io/millrace/internal/backup/postgres"
	"github.com/millrace-io/millrace/schemas/stream"
)

// moment copies Postgres and the streams that its transactions govern as of one time (5).
func (s *saver) moment(ctx context.Context, left map[string]bool) (err error) {
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
			if err := s.stream(ctx, stream.WorkAcks); err != nil {
				return err
			}
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
