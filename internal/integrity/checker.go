package integrity

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace-io/millrace/internal/retry"
	"github.com/millrace-io/millrace/schemas/instant"
	"github.com/millrace-io/millrace/schemas/stream"
)

// Stream is a stream to check.
type Stream struct {
	Name string
	// Whole says that messages are only removed at the front of the stream.
	Whole bool
	// Taken says that readers remove the messages that they have read, in any order.
	Taken bool
	// Volatile says that Millrace expects the stream to lose its end with the
	// server's process, and publishes it again from Postgres.
	Volatile bool
	// Valid returns an error for a message that Millrace alone may have written, and
	// has not: the server's checksum does not cover the lengths of a record, so that
	// the end of a subject may become the begin of a body. Nil: anybody may publish,
	// and readers judge what they read.
	Valid func(m jetstream.Msg) error
}

// Streams are those of an installation. Those that do not exist are passed over.
func Streams() []Stream {
	return []Stream{
		{Name: stream.Events, Whole: true},
		{Name: stream.Shards, Whole: true},
		{Name: stream.Sources, Whole: true},
		{Name: stream.Batches, Taken: true},
		{Name: stream.BatchesRead, Whole: true},
		{Name: stream.DLQ},
		{Name: stream.Work, Volatile: true},
		{Name: stream.WorkAcks, Volatile: true},
		{Name: "KV_" + stream.Checkpoints, Valid: validEntry},
		{Name: "KV_" + stream.Backfills, Valid: validEntry},
	}
}

// validEntry holds that a key-value entry is a JSON text under a key, or deletes it.
func validEntry(m jetstream.Msg) error {
	subject := m.Subject()
	if strings.ContainsAny(subject, "{}\"[],:") || strings.HasSuffix(subject, ".") {
		return fmt.Errorf("%q is no key", subject)
	}
	if data := m.Data(); len(data) > 0 && !json.Valid(data) {
		return fmt.Errorf("the value of %s is no JSON text", subject)
	}
	return nil
}

// Config of a Checker. The zero value of a field stands for its default.
type Config struct {
	File    string        // of the notes; required
	Streams []Stream      // default Streams()
	Every   time.Duration // between two looks at the streams; default 1 s
	// ScrubEvery is the time between two scrubs; default 24 h.
	ScrubEvery time.Duration
	// ScrubShare is the share of the time that a scrub reads, from 0 to 1; default
	// 0.1.
	ScrubShare float64
	// LeaderLag is how long a replicated stream may seem to end too early: a leader
	// that was just elected may have to catch up. Default 15 s.
	LeaderLag time.Duration
}

func (c Config) withDefaults() Config {
	if c.Streams == nil {
		c.Streams = Streams()
	}
	c.Every = cmp.Or(c.Every, time.Second)
	c.ScrubEvery = cmp.Or(c.ScrubEvery, 24*time.Hour)
	c.ScrubShare = cmp.Or(c.ScrubShare, 0.1)
	c.LeaderLag = cmp.Or(c.LeaderLag, 15*time.Second)
	return c
}

// Checker notices what streams have lost. Its methods may be called from any
// goroutine.
type Checker struct {
	cfg     Config
	nc      *nats.Conn
	js      jetstream.JetStream
	log     *slog.Logger
	metrics *metrics
	suspect chan Stream
	acked   *acked

	looking sync.Mutex // held during a look, and while a scrub reports
	shorter map[string]time.Time
	told    map[string]string // what the bucket has of a stream

	mu    sync.Mutex // guards what follows
	notes notes
	own   string // what is wrong with the notes themselves
}

// New reads the notes and starts nothing.
func New(cfg Config, nc *nats.Conn, reg prometheus.Registerer, log *slog.Logger) (*Checker, error) {
	if cfg.File == "" {
		return nil, errors.New("integrity: a file for the notes is required")
	}
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, fmt.Errorf("integrity: %w", err)
	}
	c := &Checker{
		cfg: cfg.withDefaults(), nc: nc, js: js, log: log.With("component", "integrity"),
		suspect: make(chan Stream, 16), acked: newAcked(cfg.File + ".acked"), shorter: map[string]time.Time{}, told: map[string]string{},
	}
	c.metrics = newMetrics(reg, c.cfg.Streams)
	c.notes, err = readNotes(cfg.File)
	if errors.Is(err, errNotes) {
		c.own = err.Error() + ": a loss at the end of a stream before this start is not noticed"
		c.log.Error(c.own)
		err = os.Rename(cfg.File, cfg.File+".damaged")
	}
	if err != nil {
		return nil, fmt.Errorf("integrity: %w", err)
	}
	for name, seq := range c.acked.read(c.notes.Server) {
		if n := c.notes.Streams[name]; n != nil && seq > n.Last {
			n.Last, n.LastTime = seq, instant.Time{}
		}
	}
	for name, n := range c.notes.Streams {
		c.metrics.lost(name, n.Lost.Count(), n)
	}
	return c, nil
}

// Run looks at the streams, and scrubs them, until ctx ends.
func (c *Checker) Run(ctx context.Context) error {
	var parts sync.WaitGroup
	defer parts.Wait()
	parts.Go(func() { c.scrubs(ctx) })
	parts.Go(func() {
		if err := c.acked.keep(ctx); err != nil {
			c.log.Error("what is acknowledged is noted once a second only", "error", err)
		}
	})
	return retry.Every(ctx, c.cfg.Every, c.Look, func(err error) {
		if c.nc.IsConnected() { // else the connection's owner is told
			c.log.Warn("the streams cannot be checked, trying again", "error", err, "retry_in", c.cfg.Every)
		}
	})
}

// Acked takes note that the server has acknowledged a message of a stream to this
// process. It does not wait.
func (c *Checker) Acked(name string, seq uint64) { c.acked.note(name, seq) }

// Suspect asks for a scrub of a stream: a reader misses messages of it. It does
// not wait.
func (c *Checker) Suspect(name string) {
	for _, st := range c.cfg.Streams {
		if st.Name == name {
			select {
			case c.suspect <- st:
			default: // enough are under way
			}
		}
	}
}

// lookWait bounds one look at all streams.
const lookWait = 10 * time.Second

// Look compares each stream with its note once.
func (c *Checker) Look(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, lookWait)
	defer cancel()
	c.looking.Lock()
	defer c.looking.Unlock()
	server := c.nc.ConnectedServerId()
	restarted := server != c.notes.Server // also at the first look of all
	var errs []error
	changed := restarted
	for _, st := range c.cfg.Streams {
		did, err := c.look(ctx, st, restarted)
		changed = changed || did
		errs = append(errs, err)
	}
	err := errors.Join(errs...)
	if err == nil && c.nc.ConnectedServerId() == server {
		c.mu.Lock()
		c.notes.Server = server
		c.mu.Unlock()
		c.acked.of(server)
	}
	if changed {
		err = errors.Join(err, c.save())
	}
	return errors.Join(err, c.exchange(ctx))
}

// streamStopped is the code of the error of a stream that the server does not run,
// because it cannot make out its files or those of a consumer.
const streamStopped = 10194

// look compares a stream with its note. It returns whether the note has changed.
func (c *Checker) look(ctx context.Context, st Stream, restarted bool) (bool, error) {
	now, err := ask(ctx, c.nc, st.Name, false)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return c.gone(st), nil
	}
	var refused *jetstream.APIError
	if errors.As(err, &refused) && refused.ErrorCode == streamStopped {
		return c.found(st.Name, loss{remark: "the server has stopped it: " + refused.Description}), nil
	}
	if err != nil {
		return false, err
	}
	before := c.note(st.Name)
	l := &comparison{st: st, before: before, now: now, restarted: restarted && !before.Created.IsZero(), js: c.js}
	if c.waits(st, l) {
		return false, nil
	}
	if l.wantsDetails() {
		if l.now, err = ask(ctx, c.nc, st.Name, true); err != nil {
			return false, err
		}
	}
	found, after, err := l.compare(ctx)
	if err != nil {
		return false, fmt.Errorf("check stream %s: %w", st.Name, err)
	}
	c.set(st.Name, after)
	if after.Last < before.Last {
		c.acked.cut(st.Name, after.Last)
	}
	return c.found(st.Name, found) || after.differs(before), nil
}

// waits tells whether a replicated stream that seems too short may catch up.
func (c *Checker) waits(st Stream, l *comparison) bool {
	if l.now.Config.Replicas <= 1 || l.now.State.LastSeq >= l.before.Last {
		delete(c.shorter, st.Name)
		return false
	}
	since, ok := c.shorter[st.Name]
	if !ok {
		c.shorter[st.Name] = time.Now()
	}
	return !ok || time.Since(since) < c.cfg.LeaderLag
}

// gone takes note of a stream that is not there, though it was.
func (c *Checker) gone(st Stream) bool {
	n := c.note(st.Name)
	if n.Created.IsZero() {
		return false
	}
	return c.found(st.Name, loss{remark: fmt.Sprintf("the stream is missing; it had messages up to sequence %d", n.Last)})
}

// loss is what a comparison or a scrub has found.
type loss struct {
	lost   Ranges
	remark string
}

// found adds a loss to the note of a stream, but for what is known of it. It
// returns whether anything is new.
func (c *Checker) found(name string, l loss) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.noteLocked(name)
	fresh := l.lost.Minus(n.Lost).Minus(n.Accepted)
	remark := l.remark != "" && !slices.Contains(n.Remarks, l.remark)
	if len(fresh) == 0 && !remark {
		return false
	}
	n.Lost = n.Lost.Plus(fresh)
	if remark {
		n.Remarks = append(n.Remarks, l.remark)
	}
	c.metrics.lost(name, fresh.Count(), n)
	c.log.Error("a stream has lost messages", "stream", name, "sequences", fresh.String(), "count", fresh.Count(),
		"remark", l.remark, "next", "docs/recovery.md; then millrace accept-loss --stream="+name)
	return true
}

// note returns a copy of what is known of a stream.
func (c *Checker) note(name string) note {
	c.mu.Lock()
	defer c.mu.Unlock()
	return *c.noteLocked(name)
}

func (c *Checker) noteLocked(name string) *note {
	n := c.notes.Streams[name]
	if n == nil {
		n = new(note)
		c.notes.Streams[name] = n
	}
	return n
}

// set has the note say where the stream stands now.
func (c *Checker) set(name string, after note) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.noteLocked(name)
	n.Created, n.First, n.Last, n.LastTime = after.Created, after.First, after.Last, after.LastTime
	n.Msgs, n.Deleted, n.Holes = after.Msgs, after.Deleted, after.Holes
	n.Accepted = n.Accepted.from(after.First)
}

func (c *Checker) save() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.notes.write(c.cfg.File)
}

// differs tells whether a stream has changed.
func (n note) differs(before note) bool {
	return n.Last != before.Last || n.First != before.First || n.Msgs != before.Msgs || n.Deleted != before.Deleted ||
		!n.Created.Equal(before.Created.Time)
}

// Lost returns the sequences that a stream has lost, accepted ones among them.
func (c *Checker) Lost(name string) Ranges {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.notes.Streams[name]
	if n == nil {
		return nil
	}
	return n.Lost.Plus(n.Accepted)
}

// Damage says what is lost and not accepted, one text for each stream.
func (c *Checker) Damage() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []string
	if c.own != "" {
		all = append(all, c.own)
	}
	for _, st := range c.cfg.Streams {
		if n := c.notes.Streams[st.Name]; n != nil {
			all = append(all, n.texts(st.Name)...)
		}
	}
	return all
}

// texts says what a stream has lost.
func (n *note) texts(name string) (all []string) {
	if len(n.Lost) > 0 {
		all = append(all, fmt.Sprintf("stream %s has lost %d messages: sequences %s (millrace accept-loss --stream=%s)",
			name, n.Lost.Count(), n.Lost, name))
	}
	for _, remark := range n.Remarks {
		all = append(all, fmt.Sprintf("stream %s: %s (millrace accept-loss --stream=%s)", name, remark, name))
	}
	return all
}
