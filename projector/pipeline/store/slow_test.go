package store_test

import (
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"

	"github.com/millrace-io/millrace/projector/pipeline/store"
	"github.com/millrace-io/millrace/schemas/slots"
)

// TestSlowFill: identities are read for as long as it takes to take them, however
// soon the server has to answer else.
func TestSlowFill(t *testing.T) {
	const identities = 1_000_000 // more than is under way on a connection
	opts := engine.Database(t)
	db, err := clickhouse.Open(opts)
	must(t, err)
	defer db.Close()
	must(t, db.Exec(t.Context(), `INSERT INTO retired_identities (month, seq, slot, identity)
		SELECT 202601, number + 1, 0, toFixedString(toString(number), 16)
		FROM numbers($1)`, identities))

	hasty := *opts
	hasty.ReadTimeout = 2 * time.Second
	hasty.Settings = clickhouse.Settings{"max_block_size": 1000}
	s, read := open(t, &hasty), 0
	must(t, s.Identities(t.Context(), slots.Group{Of: 1}, 0, identities, func(store.Counted) error {
		if read++; read == 1 {
			<-time.After(2 * hasty.ReadTimeout)
		}
		return nil
	}))
	if read != identities {
		t.Errorf("%d identities were read, want %d", read, identities)
	}
}
