package uploads

import (
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace-io/millrace/internal/metric"
)

// metrics are those of persisting rows.
type metrics struct {
	ingest prometheus.Histogram
	mean   prometheus.Gauge
	rows   prometheus.Counter
}

func newMetrics(registry prometheus.Registerer, pool *pgxpool.Pool) (*metrics, error) {
	m := &metrics{
		ingest: metric.Histogram("millrace_uploads_ingest_ms",
			"Milliseconds to persist a batch of rows.",
			[]float64{1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000}),
		mean: metric.Gauge("millrace_uploads_db_latency_ewma",
			"Milliseconds that a transaction takes that persists rows: a moving average, of the upload that was worked "+
				"on last."),
		rows: metric.Counter("millrace_uploads_rows_total",
			"Rows of files that were persisted, rejected ones included."),
	}
	wait := prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "millrace_uploads_pool_wait_ms",
		Help: "Milliseconds that this process has waited for connections to Postgres, all systems together.",
	}, func() float64 { return float64(pool.Stat().EmptyAcquireWaitTime()) / float64(time.Millisecond) })
	return m, metric.Register(registry, m.ingest, m.mean, m.rows, wait)
}

// persisted tells of a batch.
func (m *metrics) persisted(rows int, took, mean time.Duration) {
	ms := func(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
	m.ingest.Observe(ms(took))
	m.mean.Set(ms(mean))
	m.rows.Add(float64(rows))
}
