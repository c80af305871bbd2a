package main

import (
	"context"
	"fmt"
)

// uploadVerdict is what the comparison of uploads found.
type uploadVerdict struct {
	acked, jobs, rows int
	again             int // rows that took more than one attempt
	looks             int
	mismatches        []string
}

func (v *uploadVerdict) String() string {
	return fmt.Sprintf("uploads: %d acknowledged, %d there, with %d rows, of which %d took several attempts; %d looks at counters",
		v.acked, v.jobs, v.rows, v.again, v.looks)
}

func (v *uploadVerdict) wrong(format string, args ...any) {
	v.mismatches = append(v.mismatches, fmt.Sprintf(format, args...))
}

// uploadShift is the time in which files are uploaded.
type uploadShift struct {
	load    *uploadLoad
	close   context.CancelFunc // no more files
	abandon context.CancelFunc
	over    chan error
}

// startUploads begins to upload files.
func (t *trial) startUploads(ctx context.Context) *uploadShift {
	sending, close := context.WithCancel(ctx)
	working, abandon := context.WithCancel(ctx)
	w := &uploadShift{load: t.uploads, close: close, abandon: abandon, over: make(chan error, 1)}
	if t.uploads == nil {
		w.over <- nil
	} else {
		go func() { w.over <- t.uploads.run(sending, working) }()
	}
	return w
}

// end has all rows get their final statuses, and compares.
func (w *uploadShift) end(ctx context.Context, r *report) error {
	w.close()
	if w.load == nil {
		return nil
	}
	w.load.honest.Store(true)
	settling, cancel := context.WithTimeout(ctx, 2*drainLimit) // a row that is not found is looked for again after 45 seconds
	defer cancel()
	if err := untilHolds(settling, w.load.settled); err != nil {
		r.failures = append(r.failures, "uploads are not done: "+err.Error())
	}
	w.abandon()
	if err := <-w.over; err != nil {
		return err
	}
	checking, cancel := context.WithTimeout(ctx, foldLimit)
	defer cancel()
	var err error
	if r.uploading, err = w.load.check(checking); err != nil {
		return fmt.Errorf("check uploads: %w", err)
	}
	return nil
}

// settled is an error that says what is still under way.
func (l *uploadLoad) settled(ctx context.Context) error {
	var open, acked, pending int
	err := l.dsn.read(ctx, `SELECT count(*) FILTER (WHERE queue_state <> 'DONE'), count(*), coalesce(sum(pending + processing), 0)
		FROM millrace.upload WHERE received_at IS NOT NULL AND deleted_at IS NULL`, []any{&open, &acked, &pending},
		func() error { return nil })
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if open > 0 || len(l.acked) < l.sent {
		return fmt.Errorf("%d of %d uploads are open, with %d rows, and %d of %d are acknowledged", open, acked, pending,
			len(l.acked), l.sent)
	}
	return nil
}

// check compares what is stored with what was sent.
func (l *uploadLoad) check(ctx context.Context) (*uploadVerdict, error) {
	v := &uploadVerdict{}
	l.mu.Lock()
	defer l.mu.Unlock()
	v.acked, v.looks = len(l.acked), l.looks
	there := map[string]bool{}
	err := l.dsn.snapshot(ctx, func(from querier) error {
		var id, name, state string
		var rows, items int
		err := query(ctx, from, `SELECT id::text, name, queue_state, read_rows,
				(SELECT count(*) FROM millrace.upload_item WHERE job_no = u.no)
			FROM millrace.upload AS u WHERE received_at IS NOT NULL AND deleted_at IS NULL`,
			[]any{&id, &name, &state, &rows, &items}, func() error {
				there[id] = true
				if n, acked := l.acked[id]; acked && fmt.Sprint(n) != name {
					v.wrong("the upload %s is named %s, want %d", id, name, n)
				}
				if state != "DONE" || rows != uploadRows || items != uploadRows {
					v.wrong("the upload %s is %s with %d rows and %d items, want DONE with %d", id, state, rows, items, uploadRows)
				}
				return nil
			})
		if err != nil {
			return err
		}
		v.jobs = len(there)
		var n, row, attempts int
		var status, result string
		return query(ctx, from, `SELECT u.id::text, u.name::integer, i.row_no,
				(ARRAY['PENDING', 'PROCESSING', 'DONE', 'ERROR', 'NOT_FOUND', 'SKIPPED'])[i.status + 1], i.attempts,
				coalesce(r.result::text, '')
			FROM millrace.upload AS u JOIN millrace.upload_item AS i ON i.job_no = u.no
			LEFT JOIN millrace.upload_result AS r ON r.job_no = i.job_no AND r.row_no = i.row_no
			WHERE u.received_at IS NOT NULL AND u.deleted_at IS NULL`,
			[]any{&id, &n, &row, &status, &attempts, &result}, func() error {
				v.row(id, n, row, status, attempts, result)
				return nil
			})
	})
	for id, n := range l.acked {
		if !there[id] {
			v.wrong("the upload %s of file %d is not there", id, n)
		}
	}
	v.mismatches = append(v.mismatches, l.notes.failures...)
	return v, err
}

// row holds a row to what was planned for it.
func (v *uploadVerdict) row(id string, n, row int, status string, attempts int, result string) {
	v.rows++
	v.again += btoi(attempts > 1)
	want, wantResult := fateOf(n, row).status(), ""
	if want == "" {
		want, wantResult = "DONE", fmt.Sprintf(`{"row":%d,"upload":%d}`, row, n)
	}
	if status != want || result != wantResult {
		v.wrong("row %d of upload %s (file %d) is %s with the result %q, want %s with %q", row, id, n, status, result, want,
			wantResult)
	}
}
