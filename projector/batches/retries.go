package batches

import (
	"context"
	"fmt"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/millrace-io/millrace/internal/dbpool"

	schema "github.com/millrace-io/millrace/schemas/batches"
)

// outcomeKey is which outcome of which item it is.
type outcomeKey struct {
	schema.ID
	position, version int
}

func (e *entry) key() outcomeKey {
	return outcomeKey{e.read.About.Batch, e.read.Retry.Position, e.read.Retry.Version}
}

// markStored marks those retries whose outcomes are stored already: by the same message, or
// by another one, since the stream may have an outcome twice (invariant 6).
func (s *sink) markStored(ctx context.Context, retries []*entry) error {
	if len(retries) == 0 {
		return nil
	}
	there, err := s.versions(ctx, retries)
	if err != nil {
		return err
	}
	for _, e := range retries {
		k := e.key()
		e.isStored = there[k]
		there[k] = true
	}
	return nil
}

// versions returns the outcomes of retries that are stored for the batches of some.
func (s *sink) versions(ctx context.Context, retries []*entry) (map[outcomeKey]bool, error) {
	jobs, indexes := make([]string, len(retries)), make([]uint32, len(retries))
	for i, e := range retries {
		jobs[i], indexes[i] = e.read.About.Batch.Job, uint32(e.read.About.Batch.Index)
	}
	// Without its type, a list of small numbers could not be compared with a large index.
	const query = `SELECT job_id, batch_index, position, version FROM item_outcomes
		WHERE (job_id, batch_index) IN (SELECT arrayJoin(arrayZip(?, CAST(?, 'Array(UInt32)')))) AND version > 0`
	there := map[outcomeKey]bool{}
	err := dbpool.EachRow(ctx, s.conn, query, []any{jobs, indexes}, func(rows driver.Rows) error {
		var k outcomeKey
		var index, position uint32
		var version uint64
		err := rows.Scan(&k.Job, &index, &position, &version)
		k.Index, k.position, k.version = int32(index), int(position), int(version)
		there[k] = true
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("ask which outcomes of retries are stored: %w", err)
	}
	return there, nil
}
