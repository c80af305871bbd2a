package uploads

import (
	"testing"

	"github.com/millrace-io/millrace/internal/auth"
	"github.com/millrace-io/millrace/internal/embedded/embeddedtest"
	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/internal/userqueue"
	"github.com/millrace-io/millrace/schemas/item"

	schema "github.com/millrace-io/millrace/schemas/uploads"
)

// TestEarlierVersion (6): rows follow items that a process has ended which knows nothing of rows, as one of an earlier
// version does, and one that an operator brings back meanwhile goes on.
func TestEarlierVersion(t *testing.T) {
	s := openShop(t, auth.Config{})
	s.watch()
	stop := s.run(schema.Bounds{})
	defer stop()
	id := s.made("a.csv", []byte("no,title\n1,a\n2,b\n3,c\n4,d\n5,e\n6,f\n"), "processor", "enrich")
	for s.job(id).ReadRows < 6 {
		if _, err := s.feed.Step(t.Context(), "enrich"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.feed.Step(t.Context(), "enrich"); err != nil {
		t.Fatal(err)
	}
	of := map[int32]work{}
	for _, it := range s.taken(6) {
		of[it.Payload.RowNo] = it
	}
	before, err := queue.New(queue.Config{Kinds: []queue.Kind{&userqueue.Kind{}}}, s.pool, embeddedtest.Log(t))
	if err != nil {
		t.Fatal(err)
	}
	move := func(move item.Move, row int32, c queue.Command) {
		t.Helper()
		c.ID, c.Generation = of[row].ID, of[row].Generation
		results, err := before.Apply(t.Context(), s.q, move, []queue.Command{c})
		if err != nil || results[0].Outcome != item.Changed {
			t.Fatalf("%s of row %d: %+v, %v", move, row, results, err)
		}
	}
	move(item.Complete, 1, queue.Command{Result: []byte(`{"title":"A"}`)})
	move(item.Complete, 2, queue.Command{Result: []byte(`[1]`)})
	move(item.Fail, 3, queue.Command{Error: "broken"})
	move(item.Cancel, 4, queue.Command{})
	move(item.Fail, 6, queue.Command{Error: "broken"})
	if _, err := s.pool.Exec(t.Context(), "UPDATE millrace.upload_item SET item_id = -1 WHERE row_no = 5"); err != nil {
		t.Fatal(err)
	}
	if results, err := before.Apply(t.Context(), s.q, item.Retry, []queue.Command{{ID: of[6].ID}}); err != nil || results[0].Outcome != item.Changed {
		t.Fatalf("%+v, %v", results, err)
	}
	if n := s.processed(id); n > 0 {
		t.Fatalf("%d rows have followed: the test shows nothing", n)
	}
	if n, err := s.feed.MendRows(t.Context()); err != nil || n != 5 {
		t.Errorf("%d rows are mended, %v", n, err)
	}
	want := map[int]schema.Status{
		1: schema.StatusDone, 2: schema.Error, 3: schema.Error, 4: schema.Skipped, 5: schema.Pending, 6: schema.Processing,
	}
	for row, status := range s.statuses(id) {
		if status != want[row] {
			t.Errorf("row %d is %s, want %s", row, status, want[row])
		}
	}
	if j := s.job(id); j.Counts != [6]int32{1, 1, 1, 2, 0, 1} {
		t.Errorf("%v", j.Counts)
	}
	if n, err := s.feed.MendRows(t.Context()); err != nil || n != 0 {
		t.Errorf("%d rows are mended again, %v", n, err)
	}
	var result, fault string
	if err := s.pool.QueryRow(t.Context(), `SELECT (SELECT result::text FROM millrace.upload_result WHERE row_no = 1),
		(SELECT error FROM millrace.upload_result WHERE row_no = 3)`).Scan(&result, &fault); err != nil ||
		result != `{"title":"A"}` || fault != "broken" {
		t.Errorf("%s, %s, %v", result, fault, err)
	}
}
