package mirror

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/millrace-io/millrace/schemas/funnel"
)

// Limits bound the mirror's memory. The zero value of a field stands for its
// default.
type Limits struct {
	// Articles held exactly, counted once per stage: for all sources
	// together, and again for all single sources in use. About 30 bytes
	// each; default 2,000,000. While a reload is under way it may double.
	Articles int
	Sources  int // single sources kept current; default 128, about 120 KB each
	// Sketches are windows beyond Articles, 16 KB per stage each; default 128.
	// With fewer than are watched they evict one another.
	Sketches int
	Partials int // quarters held event by event; default 8
	// PartialEvents is the most events that a quarter may have to be held event
	// by event, 24 bytes each; default 200,000. A window that begins in a
	// larger one begins at its start instead, and says so.
	PartialEvents int
}

func (l Limits) withDefaults() Limits {
	l.Articles = cmp.Or(l.Articles, 2_000_000)
	l.Sources = cmp.Or(l.Sources, 128)
	l.Sketches = cmp.Or(l.Sketches, 128)
	l.Partials = cmp.Or(l.Partials, 8)
	l.PartialEvents = cmp.Or(l.PartialEvents, 200_000)
	return l
}

// Config shapes a mirror.
type Config struct {
	Stages []string // the pipeline's, in order
	Limits Limits
	// LoadTimeout bounds each query of a load; default 30 s.
	LoadTimeout time.Duration
	Now         func() time.Time // default time.Now
	Tracer      trace.Tracer     // has spans for announcements that are traced; default: none
}

// horizon is how far back the mirror goes: the longest period, and the day
// that any time zone may add.
const horizon = 32 * 24 * time.Hour

// Store is where the mirror loads from. Its methods call yield for every row;
// what yield returns ends the query. All filter by source, or take everything
// for funnel.AllSources.
type Store interface {
	// QuarterCounts reads the number of events by quarter from a quarter on.
	QuarterCounts(ctx context.Context, source string, from time.Time, yield func(Count) error) error
	// LastSeen reads in which quarter articles were last seen at a stage, of the
	// events in [from, to) and within a cut: a sequence for each slot group, or one
	// for all.
	LastSeen(
		ctx context.Context, source string, from, to time.Time, cut []uint64,
		yield func(stage string, bucket uint32, articles []uint64) error,
	) error
	// Sets reads the rows of buckets.
	Sets(
		ctx context.Context, source string, spans []funnel.Span,
		yield func(stage string, events uint64, set *funnel.Set) error,
	) error
	// SingleEvents reads at most limit events of all sources in [from, to) and
	// within a cut.
	SingleEvents(ctx context.Context, from, to time.Time, cut []uint64, limit int, yield func(Event) error) error
}

// Count is a row of the funnel table without its articles.
type Count struct {
	Stage  string
	Bucket uint32 // start of the quarter, Unix seconds
	Group  uint32
	Events uint64
	Seq    uint64 // folded up to this sequence
}

// Event is a single event.
type Event struct {
	At      int64 // nanoseconds since 1970
	Stage   string
	Source  string
	Article uint64
}

// ErrNotLoaded is the error of a mirror that has nothing to answer from yet.
var ErrNotLoaded = errors.New("the funnel is not loaded yet")

// ErrUnderWay is the error of finding, in the funnel's rows, a batch that is not
// durable yet and that no projector completes.
var ErrUnderWay = errors.New("a batch is under way, of which the funnel's rows may hold a part")

// ErrUnheard is the error of asking how far events are counted before the projectors'
// checkpoints have been read.
var ErrUnheard = errors.New("the projectors' checkpoints are not known yet")

// ErrClock is the error of asking while the clock is set again and again, so that no
// window lies within what is held.
var ErrClock = errors.New("the clock is set again and again")

// ErrBusy is the error of asking for a source while many others are being
// loaded, or for a window that begins within a quarter for which events keep
// coming.
var ErrBusy = errors.New("many sources are being loaded, or many events come late")

// ErrNotHeld is the error of asking for exact articles of a window that has
// more of them than the mirror holds.
var ErrNotHeld = errors.New("the window is too large to be held exactly")

// Mirror is the funnel in memory. It is safe for concurrent use.
type Mirror struct {
	cfg   Config
	store Store
	log   *slog.Logger

	ctx      context.Context // ends with Run; loads run in it
	cancel   context.CancelFunc
	loads    sync.WaitGroup
	places   loadPlaces
	verifier *verifier
	slow     atomic.Bool   // the database was late, and has not answered since
	heard    chan struct{} // closed when the checkpoints are known, or that there are none

	mu      sync.Mutex
	state   *state // what answers; nil before the first load
	next    *state // what is being loaded
	pos     positions
	parts   map[uint32][]*funnel.Delta // of deltas that are not complete, by slot group
	damage  map[uint32]error           // of checkpoints, by slot group
	want    bool                       // everything has to be loaded again
	err     error                      // why the last load failed
	reloads uint64
	wake    chan struct{} // holds a token when want is set
	changed chan struct{} // closed and replaced when the state changes
}

// New makes an empty mirror and starts nothing.
func New(cfg Config, store Store, log *slog.Logger) (*Mirror, error) {
	if len(cfg.Stages) == 0 || store == nil || log == nil {
		return nil, errors.New("funnel mirror: stages, a store and a logger are needed")
	}
	cfg.Limits = cfg.Limits.withDefaults()
	cfg.LoadTimeout = cmp.Or(cfg.LoadTimeout, 30*time.Second)
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	ctx, cancel := context.WithCancel(context.Background())
	m := &Mirror{
		cfg: cfg, store: store, log: log, ctx: ctx, cancel: cancel,
		pos: newPositions(), wake: make(chan struct{}, 1), changed: make(chan struct{}), heard: make(chan struct{}),
		parts: map[uint32][]*funnel.Delta{}, places: newLoadPlaces(), damage: map[uint32]error{},
	}
	m.verifier = newVerifier(m.Apply, log, cfg.Now)
	return m, nil
}

// Changed returns a channel that is closed when the mirror next changes.
func (m *Mirror) Changed() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.changed
}

// Position is up to where a mirror has counted, at one moment. It does not change.
type Position struct {
	Folded uint64   // the stream sequence up to which everything is counted
	Groups []uint64 // that of each slot group; nil while some of them are not known
}

// Position returns up to where the mirror has counted at present.
func (m *Mirror) Position() Position {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.state == nil {
		return Position{}
	}
	return m.pos.of(m.state.folded)
}

// Durable returns the sequence up to which projectors say that they have folded everything,
// whether or not this mirror has it.
func (m *Mirror) Durable() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.pos.of(m.pos.durable).Folded
}

// landing is how long Landed waits for a batch to be durable.
const landing = time.Second

// Landed returns what Groups will after a load, of rows that reach up to these
// sequences by slot group. Where no projector has ever said anything, it is the last
// of them for all. Before the checkpoints have been read it is not known which groups
// there are, and how far those are that have no rows: it waits for that, and returns
// ErrUnheard when it takes too long. The last batches of the rows may be under way: it
// waits until projectors say that these are durable, and returns ErrUnderWay
// when that takes too long. Nothing true could be told then: up to the rows' end
// events may be missing, and up to the last checkpoint there may be fewer than
// were shown before.
func (m *Mirror) Landed(ctx context.Context, rows map[uint32]uint64) ([]uint64, error) {
	limit := time.NewTimer(landing)
	defer limit.Stop()
	select {
	case <-m.heard:
	case <-limit.C:
		return nil, ErrUnheard
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	for {
		m.mu.Lock()
		groups, moved := m.pos.landed(rows), m.pos.moved
		whole, heard := m.pos.whole(rows), m.pos.heardAny()
		m.mu.Unlock()
		if whole {
			return groups, nil
		}
		select {
		case <-moved:
		case <-limit.C:
			if heard {
				return nil, ErrUnderWay
			}
			return groups, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// Err tells why the mirror cannot answer, nil when it can.
func (m *Mirror) Err() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.state != nil {
		return nil
	}
	return m.reason()
}

// reason tells why there is no state. The lock is held.
func (m *Mirror) reason() error {
	if m.err != nil {
		return m.err
	}
	return ErrNotLoaded
}

// notify tells readers of a change. The lock is held.
func (m *Mirror) notify() {
	close(m.changed)
	m.changed = make(chan struct{})
}

// base is the first quarter that the mirror should hold.
func (m *Mirror) base() quarter {
	return quarter(max(0, m.cfg.Now().Add(-horizon).Unix()) / int64(funnel.Quarter))
}

func start(q quarter) time.Time { return time.Unix(int64(q)*int64(funnel.Quarter), 0).UTC() }

// Stats are figures of a mirror.
type Stats struct {
	Articles int    // held exactly, by stage, of all series
	Sources  int    // single sources kept current
	Loads    uint64 // of everything
	Folded   uint64
}

// Stats returns the present figures.
func (m *Mirror) Stats() Stats {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.state == nil {
		return Stats{Loads: m.reloads}
	}
	stats := Stats{Sources: len(m.state.series) - 1, Loads: m.reloads, Folded: m.pos.least(m.state.folded)}
	for _, t := range m.state.series {
		stats.Articles += t.articles.size
	}
	return stats
}
