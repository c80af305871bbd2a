package acts_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/internal/acts"
	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/internal/recrawl"
	"github.com/millrace-io/millrace/schemas/item"
)

// batch stores a batch of the job with errors of a code, and returns nothing.
func (s *site) batch(job string, index, errs int, category, code, message string) {
	s.Helper()
	pool := s.own.Queues().Pool()
	_, err := pool.Exec(s.Context(), `INSERT INTO millrace.batch (job_id, batch_index, project_id, platform, format,
		content_count, ok, error, errors, content_hash, announced_at, read_at, changed_at, seq)
		VALUES ($1, $2, 'p', 'tiktok', 'inline', $3 + 1, 1, $3, jsonb_build_object($4::text, $3), '', now(), now(), now(), 1)`,
		job, index, errs, code)
	s.must(err)
	_, err = pool.Exec(s.Context(), `INSERT INTO millrace.batch_error (job_id, batch_index, position, project_id, content_id,
		read_at, state, category, code, print, queue, due_at, task)
		SELECT $1, $2, n, 'p', '', now(), 'error', $4, $5, $6, 'recrawl-generic', now(), '{}' FROM generate_series(1, $3::integer) AS n`,
		job, index, errs, category, code, item.FingerprintHash(item.Fingerprint(message)))
	s.must(err)
}

// counts are error and retrying of a batch.
func (s *site) counts(job string, index int) string {
	s.Helper()
	var failed, again int
	s.must(s.own.Queues().Pool().QueryRow(s.Context(), `SELECT error, retrying FROM millrace.batch
		WHERE job_id = $1 AND batch_index = $2`, job, index).Scan(&failed, &again))
	return fmt.Sprint(failed, " ", again)
}

// TestErrors (1, 2, 3): an act on errors of batches retries those that its filter matched when
// it began, each once, and skips those that were retried or have failed again since.
func TestErrors(t *testing.T) {
	t.Parallel()
	s := open(t)
	s.batch("a-b-0", 1, 700, "network", "TIMEOUT", "no answer in 3 s")
	s.batch("a-b-0", 2, 10, "network", "TIMEOUT", "refused")
	s.batch("a-c-0", 1, 5, "content", "CONTENT_REMOVED", "gone")
	index := int32(2)
	for _, c := range []struct {
		f    recrawl.ErrorFilter
		want int
	}{
		{recrawl.ErrorFilter{Category: "network"}, 710},
		{recrawl.ErrorFilter{Code: "TIMEOUT", Fingerprint: "no answer in ‹n› s"}, 700},
		{recrawl.ErrorFilter{JobID: "a-b-0", BatchIndex: &index}, 10},
		{recrawl.ErrorFilter{ProjectID: "p", Platform: "tiktok"}, 715},
		{recrawl.ErrorFilter{Platform: "youtube"}, 0},
	} {
		n, err := s.Count(t.Context(), c.f.Request())
		if s.must(err); n.Matched != c.want {
			t.Errorf("%+v matches %d, want %d", c.f, n.Matched, c.want)
		}
	}
	r := recrawl.ErrorFilter{Platform: "tiktok"}.Request()
	r.Key = "k"
	a, made, err := s.Begin(t.Context(), r)
	if s.must(err); !made || a.Matched != 715 {
		t.Fatalf("%+v", a)
	}
	if b, made, err := s.Begin(t.Context(), r); err != nil || made || b.ID != a.ID {
		t.Errorf("%+v, %v, %v", b, made, err)
	}
	// Of the members of its second turn one is retried meanwhile, and one of these has failed again.
	pool := s.own.Queues().Pool()
	var errs []recrawl.Error
	s.must(s.errs.Each(t.Context(), recrawl.ErrorFilter{JobID: "a-c-0"}, func(e recrawl.Error) error {
		errs = append(errs, e)
		return nil
	}))
	s.must(s.own.Queues().Transact(t.Context(), "retry", func(t *queue.Tx) error {
		_, err := s.errs.RetryIn(s.Context(), t, errs[:1])
		return err
	}))
	_, err = pool.Exec(t.Context(), "UPDATE millrace.batch_error SET generation = generation + 1 WHERE id = $1", errs[1].ID)
	s.must(err)
	for {
		worked, err := s.Step(t.Context())
		if s.must(err); !worked {
			break
		}
	}
	a, err = s.Get(t.Context(), a.ID)
	if s.must(err); a.State != acts.Finished || a.Done != 713 || a.Skipped != 2 || a.Left != 0 || string(a.Filter) != `{"platform":"tiktok"}` {
		t.Errorf("%+v", a)
	}
	for _, c := range []struct {
		job, want string
		index     int
	}{{"a-b-0", "0 700", 1}, {"a-b-0", "0 10", 2}, {"a-c-0", "1 4", 1}} {
		if got := s.counts(c.job, c.index); got != c.want {
			t.Errorf("%s/%d has %s, want %s", c.job, c.index, got, c.want)
		}
	}
	members, err := s.Members(t.Context(), a.ID)
	if s.must(err); len(members) != 2 || !strings.Contains(string(members[0].Details), `"job_id":"a-c-0"`) ||
		!strings.Contains(string(members[0].Details), `"position":1`) || members[0].Reason != recrawl.Retrying || members[1].Reason != recrawl.Again {
		t.Errorf("%+v", members)
	}
}
