package main

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/schemas/stream"
)

// batchVerdict is what the comparison of batches found.
type batchVerdict struct {
	acked         int // batches
	items         int // outcomes that batches brought
	retried       int // outcomes of retries
	lost, doubled int // outcomes
	overwritten   int // batches of which the content counts that was overwritten later
	looks         int
	letters       int // that stay: of announcements which break a rule
	replayed      int // of damaged objects
	analysed      int // outcomes
	unanalysed    int // outcomes with the reason why there is no analysis
	analyser      string
	differences
}

func (v *batchVerdict) String() string {
	return fmt.Sprintf("batches: %d acknowledged, with %d items, of which retries crawled %d; outcomes lost %d, doubled %d; "+
		"other content came for %d; %d looks at sums; dead letters replayed %d, left %d; %d outcomes analysed, %d with an error, in %s",
		v.acked, v.items, v.retried, v.lost, v.doubled, v.overwritten, v.looks, v.replayed, v.letters, v.analysed, v.unanalysed,
		v.analyser)
}

// finish waits until all batches are read and stored, and what is due is tried again.
func (l *batchLoad) finish(ctx context.Context) error {
	if err := untilHolds(ctx, l.settled); err != nil {
		return fmt.Errorf("batches are not settled: %w", err)
	}
	return nil
}

// settled is an error that says what is still under way.
func (l *batchLoad) settled(ctx context.Context) error {
	st, err := l.js.Stream(ctx, stream.Batches)
	if err != nil {
		return err
	}
	damaged, _, err := l.letters(ctx)
	if err != nil {
		return err
	}
	var rows, due, queued int
	err = l.dsn.read(ctx, `SELECT (SELECT count(*) FROM millrace.batch),
		(SELECT count(*) FROM millrace.batch_error WHERE state = 'waiting' AND due_at <= now() + interval '6 seconds'),
		(SELECT count(*) FROM millrace.batch_error AS e WHERE state = 'queued'
			AND NOT EXISTS (SELECT FROM millrace.delayed AS d WHERE d.item_id = e.item_id))`,
		[]any{&rows, &due, &queued}, func() error { return nil })
	if err != nil {
		return err
	}
	acked := 0
	l.mu.Lock()
	for _, b := range l.sent {
		acked += btoi(b.acked)
	}
	l.mu.Unlock()
	if left := st.CachedInfo().State.Msgs; left > 0 || damaged > 0 || rows < acked || due+queued > 0 {
		return fmt.Errorf("%d messages wait, %d are dead letters, %d of %d batches are stored, %d retries are due and %d queued",
			left, damaged, rows, acked, due, queued)
	}
	return nil
}

// letters counts the dead letters about batches: those whose object was damaged, and others.
func (l *batchLoad) letters(ctx context.Context) (damaged, others int, err error) {
	err = each(ctx, l.js, stream.DLQ, func(_ uint64, _ time.Time, m jetstream.Msg) {
		switch {
		case m.Headers().Get(stream.HeaderStream) != stream.Batches:
		case m.Headers().Get(stream.HeaderCode) == "object_damaged":
			damaged++
		default:
			others++
		}
	})
	return damaged, others, err
}

// storedBatch is what Postgres has of a batch, and of its errors by position.
type storedBatch struct {
	now    batchNow
	hash   string
	errors map[int]string // states
}

// outcomeRow is what ClickHouse has of an outcome.
type outcomeRow struct{ ok, rows int }

// check compares what is stored with what was sent.
func (l *batchLoad) check(ctx context.Context) (f finding, err error) {
	ctx, cancel := context.WithTimeout(ctx, foldLimit)
	defer cancel()
	// What retries bring is in ClickHouse a moment after it is in Postgres, and analysed after that.
	err = untilHolds(ctx, func(ctx context.Context) error {
		v, err := l.compare(ctx)
		if err == nil {
			if f = (finding{v, "batches differ from the recount", v.mismatches}); len(v.mismatches) > 0 {
				err = errors.New(v.mismatches[0])
			}
		}
		return err
	})
	if f.Stringer == nil {
		return f, fmt.Errorf("check batches: %w", err)
	}
	return f, nil
}

func (l *batchLoad) compare(ctx context.Context) (*batchVerdict, error) {
	v := &batchVerdict{}
	there, err := l.readBatches(ctx)
	if err != nil {
		return v, fmt.Errorf("read the record of batches: %w", err)
	}
	outcomes, err := l.readOutcomes(ctx)
	if err != nil {
		return v, fmt.Errorf("read outcomes: %w", err)
	}
	if _, v.letters, err = l.letters(ctx); err != nil {
		return v, err
	}
	v.analyser = l.analyser.String()
	if err := l.checkAnalyses(ctx, v); err != nil {
		return v, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	v.looks, v.replayed = l.looks, l.replays
	if v.letters < l.strange {
		v.wrong("%d dead letters about batches, and %d announcements break a rule", v.letters, l.strange)
	}
	for id, sent := range l.sent {
		v.acked += btoi(sent.acked)
		if b := there[id]; b != nil {
			v.compare(id, sent, b, outcomes[id], l.retried)
		} else if sent.acked {
			v.lost += len(sent.contents[0].items)
			v.wrong("the batch %v is not there", id)
		}
		delete(there, id)
		delete(outcomes, id)
	}
	for id := range there {
		v.wrong("the batch %v is there, and nobody has sent it", id)
	}
	for id := range outcomes {
		v.wrong("there are outcomes of the batch %v, which is not there", id)
	}
	v.mismatches = append(v.mismatches, l.notes.failures...)
	return v, nil
}

// compare holds a batch to the content that counts, item by item.
func (v *batchVerdict) compare(
	id batchID, sent *sentBatch, b *storedBatch, outcomes map[[2]int]outcomeRow, retried map[outcomeID]bool,
) {
	var content *batchContent
	for i := range sent.contents {
		if c := &sent.contents[i]; hex.EncodeToString(c.hash[:]) == b.hash {
			content = c
			v.overwritten += i
		}
	}
	if content == nil {
		v.wrong("the batch %v has content that nobody stored", id)
		return
	}
	want := batchNow{JobID: id.job, BatchIndex: id.index, Count: len(content.items), Error: content.count(itemError)}
	for position, fate := range content.outcomes {
		v.items++
		v.once(id, position, 0, fate == itemOK, outcomes)
		state, failed := b.errors[position]
		again := outcomes[[2]int{position, 1}]
		switch {
		case fate == itemOK:
			want.OK++
		case fate == itemError && state != "error", fate != itemRetried && again.rows > 0:
			v.wrong("item %d of %v: state %q, retries %+v", position, id, state, again)
		case fate == itemError:
		case failed:
			want.Retrying++
			if retried[outcomeID{id, position}] || again.rows > 0 {
				v.wrong("item %d of %v was crawled by a retry, and is %s", position, id, state)
			}
		default:
			want.OK++
			v.retried++
			v.once(id, position, 1, true, outcomes)
		}
	}
	if b.now != want {
		v.wrong("the batch is %+v, want %+v", b.now, want)
	}
	for at, row := range outcomes {
		v.wrong("an outcome too many of %v: position and version %v, %d rows", id, at, row.rows)
	}
}

// once holds that there is one row of an outcome, and takes it out.
func (v *batchVerdict) once(id batchID, position, version int, ok bool, outcomes map[[2]int]outcomeRow) {
	at := [2]int{position, version}
	row := outcomes[at]
	delete(outcomes, at)
	switch {
	case row.rows == 0:
		v.lost++
		v.wrong("no outcome of item %d of %v, version %d", position, id, version)
	case row.rows > 1:
		v.doubled += row.rows - 1
		v.wrong("%d outcomes of item %d of %v, version %d", row.rows, position, id, version)
	case (row.ok == 1) != ok:
		v.wrong("item %d of %v, version %d: success is %d", position, id, version, row.ok)
	}
}

func (l *batchLoad) readBatches(ctx context.Context) (map[batchID]*storedBatch, error) {
	all := map[batchID]*storedBatch{}
	var b storedBatch
	n := &b.now
	err := l.dsn.snapshot(ctx, func(from querier) error {
		err := query(ctx, from, `SELECT job_id, batch_index, content_count, ok, error, retrying, encode(content_hash, 'hex')
			FROM millrace.batch`, []any{&n.JobID, &n.BatchIndex, &n.Count, &n.OK, &n.Error, &n.Retrying, &b.hash},
			func() error {
				all[batchID{n.JobID, n.BatchIndex}] = &storedBatch{*n, b.hash, map[int]string{}}
				return nil
			})
		if err != nil {
			return err
		}
		var id outcomeID
		var state string
		return query(ctx, from, "SELECT job_id, batch_index, position, state FROM millrace.batch_error",
			[]any{&id.job, &id.index, &id.position, &state}, func() error {
				if all[id.batchID] == nil {
					return fmt.Errorf("an error of the batch %v, which is not there", id.batchID)
				}
				all[id.batchID].errors[id.position] = state
				return nil
			})
	})
	return all, err
}

// readOutcomes returns what ClickHouse has, by position and version.
func (l *batchLoad) readOutcomes(ctx context.Context) (map[batchID]map[[2]int]outcomeRow, error) {
	rows, err := l.rows.query(ctx, `SELECT job_id, batch_index, position, version, countIf(fetch_status = 'success') > 0, count()
		FROM item_outcomes GROUP BY job_id, batch_index, position, version`)
	if err != nil {
		return nil, err
	}
	all := map[batchID]map[[2]int]outcomeRow{}
	for _, row := range rows {
		var n [5]int
		for i := range n {
			if n[i], err = strconv.Atoi(row[i+1]); err != nil {
				return nil, err
			}
		}
		id := batchID{row[0], n[0]}
		if all[id] == nil {
			all[id] = map[[2]int]outcomeRow{}
		}
		all[id][[2]int{n[1], n[2]}] = outcomeRow{n[3], n[4]}
	}
	return all, nil
}
