package dbpool

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace-io/millrace/schemas/instant"
)

// ClampTimes has the connections of a pool read a time that lies outside of the years 1 to
// 9999, or is infinite, as the nearest one within: JSON cannot say it, and one such row
// would break every answer that holds it. It calls clamped for each; nil: nothing.
func ClampTimes(cfg *pgxpool.Config, clamped func()) {
	if clamped == nil {
		clamped = func() {}
	}
	before := cfg.AfterConnect
	cfg.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		codec := &clampingCodec{&pgtype.TimestamptzCodec{}, clamped}
		kind := &pgtype.Type{Name: "timestamptz", OID: pgtype.TimestamptzOID, Codec: codec}
		conn.TypeMap().RegisterType(kind)
		conn.TypeMap().RegisterType(&pgtype.Type{
			Name: "_timestamptz", OID: pgtype.TimestamptzArrayOID, Codec: &pgtype.ArrayCodec{ElementType: kind},
		})
		if before != nil {
			return before(ctx, conn)
		}
		return nil
	}
}

type clampingCodec struct {
	*pgtype.TimestamptzCodec
	clamped func()
}

// PlanScan implements pgtype.Codec.
func (c *clampingCodec) PlanScan(m *pgtype.Map, oid uint32, format int16, target any) pgtype.ScanPlan {
	plan := c.TimestamptzCodec.PlanScan(m, oid, format, new(pgtype.Timestamptz))
	if _, ok := target.(pgtype.TimestamptzScanner); !ok || plan == nil {
		return c.TimestamptzCodec.PlanScan(m, oid, format, target)
	}
	return clampingPlan{plan, c.clamped}
}

type clampingPlan struct {
	pgtype.ScanPlan
	clamped func()
}

// Scan implements pgtype.ScanPlan.
func (p clampingPlan) Scan(src []byte, target any) error {
	var read pgtype.Timestamptz
	if err := p.ScanPlan.Scan(src, &read); err != nil {
		return err
	}
	if read.Valid {
		switch read.InfinityModifier {
		case pgtype.Infinity:
			read.Time = farthest
		case pgtype.NegativeInfinity:
			read.Time = time.Time{}
		case pgtype.Finite:
		}
		within, clamped := instant.Clamp(read.Time)
		if clamped || read.InfinityModifier != pgtype.Finite {
			p.clamped()
			read.Time, read.InfinityModifier = within, pgtype.Finite
		}
	}
	return target.(pgtype.TimestamptzScanner).ScanTimestamptz(read)
}

// farthest is beyond all that is clamped.
var farthest = time.Date(294_277, 1, 1, 0, 0, 0, 0, time.UTC)

// countClamped counts and logs clamped times.
func countClamped(reg prometheus.Registerer, pool string, log *slog.Logger) (func(), error) {
	n := prometheus.NewCounter(prometheus.CounterOpts{
		Name: "millrace_times_clamped_total",
		Help: "Times in rows that lie outside of the years 1 to 9999 and were read as the nearest within.",

		ConstLabels: prometheus.Labels{"pool": pool},
	})
	if err := reg.Register(n); err != nil {
		return nil, fmt.Errorf("register metrics of the pool %s: %w", pool, err)
	}
	var logged atomic.Int64 // the minute
	return func() {
		n.Inc()
		if minute := time.Now().Unix() / 60; logged.Swap(minute) != minute {
			log.Warn("a row holds a time outside of the years 1 to 9999: it is shown as the nearest time within", "pool", pool)
		}
	}, nil
}
