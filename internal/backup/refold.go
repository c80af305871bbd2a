package backup

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/internal/backup/set"
	"github.com/millrace-io/millrace/schemas/funnel"
	"github.com/millrace-io/millrace/schemas/stream"

	tables "github.com/millrace-io/millrace/internal/backup/clickhouse"
)

// Refold makes ClickHouse anew from a set that is older than the streams, and puts the positions of the slot groups
// back to those of the set, so that projectors fold what has come since again. No process of the installation may
// run. It returns the sequence behind which they begin. It refuses, and changes nothing, when the stream no longer has
// all that has come since.
func Refold(ctx context.Context, in Installation, r *set.Reader) (after uint64, err error) {
	var nats natsInfo
	var columns tables.Info
	if _, err := r.Info(natsStore, &nats); err != nil {
		return 0, err
	}
	if _, err := r.Info(tables.Store, &columns); err != nil {
		return 0, err
	}
	js, err := jetstream.New(in.NATS)
	if err != nil {
		return 0, err
	}
	s := &saver{Installation: in, js: js, info: nats}
	if err := s.checkLayout(ctx); err != nil {
		return 0, errors.New("the slot groups were changed since the backup: restore all of it, or take an older one's " +
			"rows by hand")
	}
	records, after, err := s.older(ctx)
	if err != nil {
		return 0, err
	}
	db := tables.Open(in.ClickHouse)
	defer db.Close()
	if err := s.claimRefold(ctx, db, r.Sum); err != nil {
		return 0, err
	}
	if err := db.Prepare(ctx); err != nil {
		return 0, err
	}
	if err := in.restoreTables(ctx, db, r, columns); err != nil {
		return 0, err
	}
	kv, err := js.KeyValue(ctx, stream.Checkpoints)
	if err != nil {
		return 0, fmt.Errorf("open the bucket %s: %w", stream.Checkpoints, err)
	}
	for key, value := range records {
		if _, err := kv.Put(ctx, key, value); err != nil {
			return 0, fmt.Errorf("put the checkpoint %s back: %w", key, err)
		}
	}
	if err := db.Release(ctx); err != nil {
		return 0, err
	}
	return after, removeMark(ctx, js)
}

// claimRefold marks the servers, unless a restore to them has not ended, or ClickHouse has tables of an installation.
func (s *saver) claimRefold(ctx context.Context, db *tables.Database, sum string) error {
	before, err := readMark(ctx, s.js)
	if err != nil {
		return err
	}
	if before != nil && before.Set != "" && !before.Refold {
		return errors.New("a restore to these servers has not ended: run \"millrace restore\" to its end")
	}
	if err := db.Check(ctx); err != nil {
		return err
	}
	checkpoints, err := s.js.Stream(ctx, "KV_"+stream.Checkpoints)
	if err != nil {
		return fmt.Errorf("open the bucket %s: %w", stream.Checkpoints, err)
	}
	_, err = setMark(ctx, s.js, mark{Set: sum, Refold: true}, checkpoints.CachedInfo().Config.Replicas)
	return err
}

// older are the positions of the set, as records that follow the present ones, and the least of them. The stream has
// to have everything behind them.
func (s *saver) older(ctx context.Context) (records map[string]json.RawMessage, after uint64, err error) {
	l, err := s.layout()
	if err != nil {
		return nil, 0, err
	}
	st, err := s.js.Stream(ctx, stream.Events)
	if err != nil {
		return nil, 0, fmt.Errorf("read stream %s: %w", stream.Events, err)
	}
	first, last := st.CachedInfo().State.FirstSeq, st.CachedInfo().State.LastSeq
	records = map[string]json.RawMessage{}
	for i, g := range l.Current() {
		value, err := s.value(ctx, g.Key())
		if err != nil {
			return nil, 0, err
		}
		record, now, err := both(s.info.Records[g.Key()], value)
		if err != nil {
			return nil, 0, fmt.Errorf("checkpoint %s: %w", g.Key(), err)
		}
		position := max(record.From, g.After)
		if i == 0 || position < after {
			after = position
		}
		switch {
		case record.To > now.To || record.To > last:
			return nil, 0, fmt.Errorf("the backup is at sequence %d of %s, and the installation is behind that: restore all of it",
				record.To, stream.Events)
		case first > max(position, record.CaughtUp)+1:
			return nil, 0, fmt.Errorf("stream %s begins at sequence %d, and the backup ends at %d: the events between are gone, "+
				"so restore a newer backup", stream.Events, first, position)
		}
		record.View.Baseline = funnel.Baseline{Number: now.View.Baseline.Number + 1, Accepted: now.View.Baseline.Accepted}
		if records[g.Key()], err = json.Marshal(record); err != nil {
			return nil, 0, err
		}
	}
	return records, after, nil
}

// both reads the record of a group in the set, and the present one.
func both(of, present json.RawMessage) (record, now funnel.Checkpoint, err error) {
	if of == nil || present == nil {
		return record, now, errors.New("the group had not begun")
	}
	if record, err = funnel.ParseCheckpoint(bytes.Clone(of)); err == nil {
		now, err = funnel.ParseCheckpoint(present)
	}
	return record, now, err
}
