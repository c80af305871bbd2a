package dlq

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/millrace-io/millrace/schemas/stream"
)

// deleters is the number of deletions under way at once: each waits for the
// server's disk.
const deleters = 16

// Purge deletes letters. The report holds what was done even when there is an
// error.
func (s *Service) Purge(ctx context.Context, sel Selection, dryRun bool) (LetterReport, error) {
	report := NewReport(dryRun)
	if err := sel.Check(); err != nil {
		return report, err
	}
	st, err := s.stream(ctx)
	if err != nil {
		return report, err
	}
	switch {
	case dryRun:
		err = s.each(ctx, st, sel, &report, func([]found) error { return nil })
	case sel.serverCan():
		report.Deleted, err = s.purge(ctx, sel.Filter.subject(), st.CachedInfo().State.LastSeq)
		report.Matched = report.Deleted
	default:
		err = s.each(ctx, st, sel, &report, func(some []found) error { return s.drop(ctx, some, &report) })
	}
	if !dryRun && report.Matched > 0 {
		s.log.Info("dead letters purged", "matched", report.Matched, "deleted", report.Deleted)
	}
	return report, err
}

// serverCan tells whether the server itself can select the letters, which is
// one request for any number of them.
func (s *Selection) serverCan() bool {
	return len(s.IDs) == 0 && s.Limit == 0 && s.Cursor == Cursor{} && s.Filter == Filter{Stream: s.Filter.Stream}
}

// purge deletes the letters of a subject up to a sequence, and returns how
// many they were.
func (s *Service) purge(ctx context.Context, subject string, upTo uint64) (int, error) {
	// The server answers when it has done it all.
	ctx, cancel := context.WithTimeout(ctx, 10*s.cfg.Timeout)
	defer cancel()
	var answer struct{ Purged int }
	err := s.ask(ctx, "STREAM.PURGE", jetstream.StreamPurgeRequest{Subject: subject, Sequence: upTo + 1}, &answer)
	return answer.Purged, err
}

// ask sends a request about the DLQ stream to the server. It stands beside
// nats.go for what that does not hand on: how many messages were purged, and
// the code of the error of a deletion.
func (s *Service) ask(ctx context.Context, api string, request, answer any) error {
	text, err := json.Marshal(request)
	if err != nil {
		return fmt.Errorf("%s %s: %w", api, stream.DLQ, err)
	}
	m, err := s.nc.RequestWithContext(ctx, jetstream.DefaultAPIPrefix+api+"."+stream.DLQ, text)
	if err != nil {
		return fmt.Errorf("%s %s: %w", api, stream.DLQ, err)
	}
	var refused struct{ Error *jetstream.APIError }
	if err = json.Unmarshal(m.Data, &refused); err == nil && refused.Error != nil {
		err = refused.Error
	}
	if err == nil {
		err = json.Unmarshal(m.Data, answer)
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w", api, stream.DLQ, err)
	}
	return nil
}

func (s *Service) drop(ctx context.Context, some []found, report *LetterReport) error {
	ids := make([]uint64, len(some))
	for i := range some {
		ids[i] = some[i].ID
	}
	deleted, err := s.deleteAll(ctx, ids)
	report.Deleted += deleted
	return err
}

// deleteAll deletes letters and returns how many of them are gone. One that
// somebody else has deleted meanwhile is gone, too.
func (s *Service) deleteAll(ctx context.Context, ids []uint64) (int, error) {
	var gone atomic.Int64
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(deleters)
	for _, id := range ids {
		g.Go(func() error {
			if err := s.delete(ctx, id); err != nil {
				return fmt.Errorf("delete dead letter %d: %w", id, err)
			}
			gone.Add(1)
			return nil
		})
	}
	err := g.Wait()
	return int(gone.Load()), err
}

// delete deletes one letter. The server has several errors for one that is not
// there, and shares one of them with true failures, so an error makes it look.
func (s *Service) delete(ctx context.Context, id uint64) error {
	request := struct {
		Seq     uint64 `json:"seq"`
		NoErase bool   `json:"no_erase"`
	}{id, true}
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	err := s.ask(ctx, "STREAM.MSG.DELETE", request, &struct{}{})
	var refused *jetstream.APIError
	if !errors.As(err, &refused) {
		return err
	}
	st, lookErr := s.stream(ctx)
	if lookErr == nil {
		_, lookErr = s.find(ctx, st, strconv.FormatUint(id, 10))
	}
	if errors.Is(lookErr, ErrNotFound) {
		return nil
	}
	return err
}
