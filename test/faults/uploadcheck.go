package main

import (
	"context"
	"fmt"
	"slices"
)

// uploadVerdict is what the comparison of uploads found.
type uploadVerdict struct {
	acked, jobs, rows int
	again             int // rows that took more than one attempt
	byTus, watched    int // uploads
	exports           int // that were compared
	looks             int
	hook              string // what its receiver did
	differences
}

func (v *uploadVerdict) String() string {
	return fmt.Sprintf("uploads: %d acknowledged (%d by tus), %d there (%d of a watched place), with %d rows, of which %d took several "+
		"attempts; %d looks at counters; %d exports compared; webhook: %s", v.acked, v.byTus, v.jobs, v.watched, v.rows, v.again,
		v.looks, v.exports, v.hook)
}

// finish waits until all rows have their final statuses. One that is not found is looked for again after 45 seconds, and
// one of a receiver that was busy after others.
func (l *uploadLoad) finish(ctx context.Context) error {
	l.honest.Store(true)
	if err := untilHolds(ctx, l.settled); err != nil {
		return fmt.Errorf("uploads are not done: %w", err)
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
	if open > 0 || l.coming || len(l.acked) < l.sent {
		return fmt.Errorf("%d of %d uploads are open, with %d rows, and %d of %d are acknowledged", open, acked, pending,
			len(l.acked), l.sent)
	}
	if want := len(l.acked) + len(l.place.must); acked < want {
		return fmt.Errorf("%d uploads are there, and %d files were sent or are in the watched place", acked, want)
	}
	return nil
}

// check compares what is stored with what was sent.
func (l *uploadLoad) check(ctx context.Context) (finding, error) {
	v, err := l.compare(ctx)
	return finding{v, "uploads differ from the recount", v.mismatches}, err
}

func (l *uploadLoad) compare(ctx context.Context) (*uploadVerdict, error) {
	v := &uploadVerdict{hook: l.hook.String()}
	l.mu.Lock()
	defer l.mu.Unlock()
	v.acked, v.looks, v.exports = len(l.acked), l.looks, l.exports
	for _, n := range l.acked {
		v.byTus += btoi(planOf(n, l.large).tus)
	}
	numbers := l.contents()
	plans := map[string]uploadPlan{} // of the uploads that are there
	err := l.dsn.snapshot(ctx, func(from querier) error {
		var id, state, processor string
		var sum []byte
		var rows, items int
		err := query(ctx, from, `SELECT id::text, queue_state, processor, sha256, read_rows,
				(SELECT count(*) FROM millrace.upload_item WHERE job_no = u.no)
			FROM millrace.upload AS u WHERE received_at IS NOT NULL AND deleted_at IS NULL`,
			[]any{&id, &state, &processor, &sum, &rows, &items}, func() error {
				n, known := numbers[string(sum)]
				if !known {
					v.wrong("the upload %s has a content that nobody has sent", id)
					return nil
				}
				p := planOf(n, l.large)
				plans[id] = p
				if state != "DONE" || rows != p.rows || items != p.rows || processor != p.processor {
					v.wrong("the upload %s (file %d) by %s is %s with %d rows and %d items, want DONE with %d by %s", id, n, processor,
						state, rows, items, p.rows, p.processor)
				}
				return nil
			})
		if err != nil {
			return err
		}
		v.jobs = len(plans)
		var row, attempts int
		var status, result string
		return query(ctx, from, `SELECT u.id::text, i.row_no,
				(ARRAY['PENDING', 'PROCESSING', 'DONE', 'ERROR', 'NOT_FOUND', 'SKIPPED'])[i.status + 1], i.attempts,
				coalesce(r.result::text, '')
			FROM millrace.upload AS u JOIN millrace.upload_item AS i ON i.job_no = u.no
			LEFT JOIN millrace.upload_result AS r ON r.job_no = i.job_no AND r.row_no = i.row_no
			WHERE u.received_at IS NOT NULL AND u.deleted_at IS NULL`,
			[]any{&id, &row, &status, &attempts, &result}, func() error {
				if p, known := plans[id]; known {
					v.row(id, p, row, status, attempts, result)
				}
				return nil
			})
	})
	for id, n := range l.acked {
		if p, there := plans[id]; !there || p.n != n {
			v.wrong("the upload %s of file %d is not there", id, n)
		}
	}
	v.place(plans, l.place)
	v.mismatches = append(v.mismatches, l.notes.failures...)
	return v, err
}

// contents are the numbers of all files that there were, by their digests.
func (l *uploadLoad) contents() map[string]int {
	all := append(slices.Concat(l.place.must, l.place.may), exportedUpload, largeUpload)
	for n := range l.sent {
		all = append(all, n)
	}
	numbers := make(map[string]int, len(all))
	for _, n := range all {
		sum := planOf(n, l.large).sha256()
		numbers[string(sum[:])] = n
	}
	return numbers
}

// place holds uploads of a watched place to its files: each content is one upload, but for those that may have been
// overwritten before they were taken.
func (v *uploadVerdict) place(plans map[string]uploadPlan, place *watchedPlace) {
	taken := map[int]int{}
	for _, p := range plans {
		if p.n >= watchedUploads {
			taken[p.n]++
			v.watched++
		}
	}
	for _, n := range place.must {
		if taken[n] != 1 {
			v.wrong("the file %d of the watched place was taken %d times", n, taken[n])
		}
	}
	for _, n := range place.may {
		if taken[n] > 1 {
			v.wrong("the file %d of the watched place was taken %d times", n, taken[n])
		}
	}
}

// row holds a row to what was planned for it.
func (v *uploadVerdict) row(id string, p uploadPlan, row int, status string, attempts int, result string) {
	v.rows++
	v.again += btoi(attempts > 1)
	if want, of := p.fate(row).status(), p.result(row); status != want || result != of {
		v.wrong("row %d of upload %s (file %d) is %s with the result %q, want %s with %q", row, id, p.n, status, result, want, of)
	}
}
