package trackingtest

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/millrace-io/millrace/internal/queue"
)

// seen logs the changes of items of the queue mail twice: by a trigger on their rows, and by
// a hook of the queue.
const seen = `CREATE SCHEMA seen;
CREATE TABLE seen.change (
	id bigint GENERATED ALWAYS AS IDENTITY, hook boolean, item_id bigint, before text, after text
);
CREATE FUNCTION seen.note() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO seen.change (hook, item_id, before, after)
	SELECT false, NEW.id, OLD.status || ' ' || OLD.generation, NEW.status || ' ' || NEW.generation
	FROM millrace.stage WHERE stage = NEW.stage AND name = 'mail';
	RETURN NULL;
END $$;
CREATE TRIGGER seen AFTER UPDATE ON millrace.item
	FOR EACH ROW WHEN ((OLD.status, OLD.generation) IS DISTINCT FROM (NEW.status, NEW.generation))
	EXECUTE FUNCTION seen.note();`

const missed = `SELECT item_id,
	coalesce(string_agg(before || ' to ' || after, ', ' ORDER BY id) FILTER (WHERE hook), ''),
	coalesce(string_agg(before || ' to ' || after, ', ' ORDER BY id) FILTER (WHERE NOT hook), '')
	FROM seen.change GROUP BY item_id
	HAVING array_agg(before || after ORDER BY id) FILTER (WHERE hook)
		IS DISTINCT FROM array_agg(before || after ORDER BY id) FILTER (WHERE NOT hook)`

// CheckMoves has the test fail if the hooks of the queue mail are told anything but the
// changes of its items, each once and in order, whatever the test does (8). Call it right
// after the pool is made, so that it looks when all else has ended.
func CheckMoves(t testing.TB, pool *pgxpool.Pool, queues *queue.Store) {
	t.Helper()
	if _, err := pool.Exec(t.Context(), seen); err != nil {
		t.Fatal(err)
	}
	queues.OnMove("mail", func(_ context.Context, tx *queue.Tx, changes []queue.Change) error {
		for _, c := range changes {
			if c.Deleted {
				continue
			}
			tx.Batch.Queue(`INSERT INTO seen.change (hook, item_id, before, after)
				VALUES (true, $1, $2::text || ' ' || $3::integer, $4::text || ' ' || $5::integer)`, c.ID,
				c.Before.Status.String(), c.Before.Generation, c.After.Status.String(), c.After.Generation)
		}
		return nil
	})
	t.Cleanup(func() {
		rows, err := pool.Query(context.WithoutCancel(t.Context()), missed)
		if err != nil {
			t.Error(err)
			return
		}
		var id int64
		var told, was string
		_, err = pgx.ForEachRow(rows, []any{&id, &told, &was}, func() error {
			t.Errorf("item %d: the hook was told %q, and the item went %q", id, told, was)
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	})
}
