package pipeline

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/ClickHouse/ch-go/proto"

	"github.com/millrace-io/millrace/internal/slowtest"
	"github.com/millrace-io/millrace/projector/fold"
	"github.com/millrace-io/millrace/projector/keystore"
	"github.com/millrace-io/millrace/projector/pipeline/funnel"
	"github.com/millrace-io/millrace/schemas/event"
	"github.com/millrace-io/millrace/schemas/slots"
	"github.com/millrace-io/millrace/schemas/stream"

	contract "github.com/millrace-io/millrace/schemas/funnel"
)

// TestFoldedHistory holds invariants 1, 2, 3, 6 and 8 of the pure code: random
// histories with repeats, in no order of time, with rules broken and with the
// stream's clock jumping back and forth, folded in batches cut at random by one
// slot group or several, with keys that another service or stage has and with
// several channels, with crashes that lose some effects of a batch and key stores
// that are lost, equal a plain recount. So they do while the number
// of groups changes at random: those of an epoch stop anywhere, go on to the
// furthest of them, and leave the rest to others.
func TestFoldedHistory(t *testing.T) {
	met := map[string]int{} // codes of letters
	seeds := slowtest.N(8, 4)
	defer func() {
		if met[event.KeyConflict] < 2*seeds {
			t.Errorf("the histories have conflicts %v", met)
		}
	}()
	for seed := range uint64(seeds) {
		rng := rand.New(rand.NewPCG(seed, 1))
		messages := messages(t, rng, 600)
		want := recountOf(t, messages)
		got := newEffects()
		layout, err := slots.New(1 + rng.Uint32N(3))
		for last := false; !last && err == nil; {
			last = rng.IntN(2) == 0
			cut := foldEpoch(t, rng, layout, messages, last, got)
			if layout, err = layout.Ask(1 + rng.Uint32N(4)); err == nil {
				layout, err = layout.Cut(cut)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		for seq, code := range want.letters {
			met[code]++
			if got.letters[seq] != code {
				t.Errorf("seed %d: sequence %d is a letter for %q, want %q", seed, seq, got.letters[seq], code)
			}
		}
		if !maps.Equal(got.rows, want.rows) {
			t.Errorf("seed %d: %d rows, want %d", seed, len(got.rows), len(want.rows))
		}
		if !maps.Equal(got.letters, want.letters) {
			t.Errorf("seed %d: letters %v, want %v", seed, got.letters, want.letters)
		}
		compareFunnels(t, seed, got.funnel, want.funnel)
	}
}

// foldEpoch folds with the groups of the newest epoch, all messages if it is
// the last one, and returns where it ends.
func foldEpoch(
	t *testing.T, rng *rand.Rand, layout slots.Layout, messages []fold.Message, last bool, got *effects,
) (cut uint64) {
	var labs []*lab
	for _, g := range layout.Current() {
		l := &lab{
			t: t, rng: rng, group: g, dir: t.TempDir(), table: map[contract.Key]tableRow{}, effects: got,
			messages: messages, done: g.After,
		}
		upto := g.After + rng.Uint64N(uint64(len(messages))-g.After+1)/3
		if last {
			upto = uint64(len(messages))
		}
		l.fold(messages, upto)
		cut = max(cut, l.done)
		labs = append(labs, l)
	}
	for _, l := range labs {
		l.fold(messages, cut)
		l.add(got.funnel)
	}
	return cut
}

func compareFunnels(t *testing.T, seed uint64, got, want map[contract.Key]*counted) {
	t.Helper()
	for key, w := range want {
		if g := got[key]; g == nil || g.events != w.events || g.articles.Estimate() != w.articles.Estimate() {
			t.Fatalf("seed %d: %+v is %+v, want %+v", seed, key, g, w)
		}
	}
	if len(got) != len(want) {
		t.Errorf("seed %d: %d funnel rows, want %d", seed, len(got), len(want))
	}
}

// effects are what a history leaves behind.
type effects struct {
	rows    map[uint64]counts // of the events table, by sequence
	letters map[uint64]string // codes of their rules
	funnel  map[contract.Key]*counted
}

// counts is what tells an event from others.
type counts struct {
	id          event.Identity
	fingerprint event.Fingerprint
}

type counted struct {
	events   uint64
	articles contract.Set
}

func newEffects() *effects {
	return &effects{rows: map[uint64]counts{}, letters: map[uint64]string{}, funnel: map[contract.Key]*counted{}}
}

// messages are random ones: about half of them repeat others.
func messages(t *testing.T, rng *rand.Rand, n int) []fold.Message {
	stages := stagesOf(t)
	clock := time.Date(2026, 3, 29, 1, 0, 0, 0, time.UTC)
	var sent []fold.Message
	for seq := uint64(1); seq <= uint64(n); seq++ {
		clock = clock.Add(time.Duration(rng.Int64N(int64(time.Minute))))
		if rng.IntN(40) == 0 {
			clock = clock.Add(time.Duration(rng.Int64N(int64(6*time.Hour)) - int64(3*time.Hour)))
		}
		m := fold.Message{Seq: seq, Time: clock.UnixNano()}
		switch k := rng.IntN(20); {
		case k < 9 && len(sent) > 0:
			before := sent[rng.IntN(len(sent))]
			m.Subject, m.Data = before.Subject, before.Data
		case k == 9:
			m.Subject, m.Data = "events.crawled.7f", []byte(`{"article_url":"https://`)
		default:
			m.Subject, m.Data = message(t, rng, stages, clock)
		}
		sent = append(sent, m)
	}
	return sent
}

func message(t *testing.T, rng *rand.Rand, stages event.Stages, clock time.Time) (subject string, data []byte) {
	e := event.Event{
		ArticleURL: fmt.Sprint("https://example.com/", rng.IntN(80)), SourceName: fmt.Sprint("source ", rng.IntN(3)),
		ServiceName: "test",
		Stage:       stages.Names()[rng.IntN(5)],
		OccurredAt:  clock.Add(time.Minute - time.Duration(rng.Int64N(int64(25*time.Hour)))).UTC(),
	}
	if rng.IntN(8) == 0 {
		e.OccurredAt = e.OccurredAt.AddDate(0, -rng.IntN(14), 0)
		e.Metadata = map[string]any{"backfilled": true}
	}
	switch rng.IntN(8) {
	case 0: // several channels of an article at one time
		e.ArticleURL, e.Stage, e.OccurredAt = "https://example.com/1", "published", e.OccurredAt.Truncate(24*time.Hour)
		e.Metadata = map[string]any{"backfilled": true, "channel": fmt.Sprint("channel ", rng.IntN(4))}
	case 1: // keys that other services and stages have
		e.ArticleURL, e.ServiceName = "https://example.com/2", fmt.Sprint("service ", rng.IntN(2))
		e.IdempotencyKey = fmt.Sprint("key ", rng.IntN(12))
	}
	subject, data = encoded(t, e)
	if rng.IntN(50) == 0 {
		return "events.crawled.zz", data
	}
	return subject, data
}

// backfilledAt is a message of that time.
func backfilledAt(t *testing.T, rng *rand.Rand, stages event.Stages, at time.Time) (subject string, data []byte) {
	return encoded(t, event.Event{
		ArticleURL: fmt.Sprint("https://example.com/", rng.IntN(80)), SourceName: fmt.Sprint("source ", rng.IntN(3)),
		ServiceName: "test",
		Stage:       stages.Names()[rng.IntN(5)], OccurredAt: at, Metadata: map[string]any{"backfilled": true},
	})
}

// encoded is the message of an event.
func encoded(t *testing.T, e event.Event) (subject string, data []byte) {
	data, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	var r event.Record
	if err := event.Decode(data, &r); err != nil {
		t.Fatal(err)
	}
	return stream.EventSubject(e.Stage, r.URLHash), data
}

func stagesOf(t testing.TB) event.Stages {
	t.Helper()
	stages, err := event.ParseStages(event.DefaultStages)
	if err != nil {
		t.Fatal(err)
	}
	return stages
}

// recountOf states plainly what has to come of messages.
func recountOf(t *testing.T, messages []fold.Message) *effects {
	want, stages, seen := newEffects(), stagesOf(t), map[event.Identity][2]string{}
	for _, m := range messages {
		var r event.Record
		invalid := event.Decode(m.Data, &r)
		if invalid == nil {
			invalid = r.Validate(stages, time.Unix(0, m.Time), true)
		}
		if invalid == nil && !stream.MatchesSubject(m.Subject, r.Stage, r.URLHash) {
			invalid = &event.Invalid{Code: "subject"}
		}
		if invalid != nil {
			want.letters[m.Seq] = invalid.Code
			continue
		}
		id, sender := r.Identity(), [2]string{string(r.Stage), string(r.ServiceName)}
		if first, ok := seen[id]; ok {
			if first != sender {
				want.letters[m.Seq] = event.KeyConflict
			}
			continue
		}
		seen[id] = sender
		want.rows[m.Seq] = counts{id, r.Fingerprint()}
		for _, width := range contract.Widths {
			for _, name := range []string{contract.AllSources, string(r.SourceName)} {
				key := contract.Key{
					Width: width, Bucket: uint32(width.Floor(r.OccurredAt / 1e9)), Source: name,
					Stage: string(r.Stage),
				}
				if want.funnel[key] == nil {
					want.funnel[key] = new(counted)
				}
				want.funnel[key].events++
				want.funnel[key].articles.Insert(r.ArticleID())
			}
		}
	}
	return want
}

// lab folds for one slot group, and crashes.
type lab struct {
	t     *testing.T
	rng   *rand.Rand
	group slots.Group
	dir   string
	table map[contract.Key]tableRow // the funnel table
	*effects

	messages []fold.Message // by their sequence, from 1
	keys     *keystore.Store
	view     *view
	done     uint64 // up to here everything has every effect
}

type tableRow struct {
	events uint64
	set    []byte
	seq    uint64
}

// fold folds messages up to a sequence. Bounds once decided stay so over
// crashes.
func (l *lab) fold(messages []fold.Message, upto uint64) {
	l.open()
	defer func() { l.keys.Close() }()
	l.fill()
	for l.done < upto {
		end := min(l.done+1+l.rng.Uint64N(90), upto)
		part := messages[l.done:end]
		for l.rng.IntN(4) == 0 { // killed before, in the middle of, or after writing
			l.write(l.batch(part), func() bool { return l.rng.IntN(2) == 0 })
			l.crash()
		}
		l.write(l.batch(part), func() bool { return false })
		l.done = end
		if l.rng.IntN(8) == 0 {
			l.crash()
		}
	}
}

func (l *lab) open() {
	var err error
	if l.keys, err = keystore.Open(l.t.Context(), l.dir+"/keys", keystore.Options{}); err != nil {
		l.t.Fatal(err)
	}
	rows, err := funnel.Open(l.t.Context(), funnel.Config{CacheBytes: 5000}, l)
	if err != nil {
		l.t.Fatal(err)
	}
	l.view = &view{
		group: l.group, stages: stagesOf(l.t), keys: l.keys, funnel: rows, durable: func() uint64 { return l.done },
		batchBytes: 1 << 20,
	}
}

// crash begins a new life; the key store may be lost with the old one, and is
// filled from the rows that are there.
func (l *lab) crash() {
	if err := l.keys.Close(); err != nil {
		l.t.Fatal(err)
	}
	if l.rng.IntN(3) > 0 {
		l.open()
		return
	}
	if err := os.RemoveAll(l.dir + "/keys"); err != nil {
		l.t.Fatal(err)
	}
	l.open()
	l.fill()
}

// fill makes the key store know what is in the table.
func (l *lab) fill() {
	if l.keys.Applied() >= l.done {
		return
	}
	var known []keystore.Sighting
	for _, seq := range slices.Sorted(maps.Keys(l.rows)) {
		if seq <= l.done {
			known = append(known, see(l.rows[seq].id, l.rows[seq].fingerprint, seq))
		}
	}
	if err := l.keys.Fill(known, l.done); err != nil {
		l.t.Fatal(err)
	}
}

func (l *lab) batch(messages []fold.Message) *batch {
	for _, m := range messages {
		l.view.Take(m)
	}
	b, _, err := l.view.Seal(l.t.Context(), fold.Cut{From: l.done, To: l.done + uint64(len(messages))})
	if err != nil {
		l.t.Fatal(err)
	}
	return b
}

// write gives a batch its effects, but for those that are lost.
func (l *lab) write(b *batch, lost func() bool) {
	identities := b.rows.Input()
	for i := range b.rows.Rows() {
		if seq := b.rows.Seq(i); !lost() {
			id := event.Identity(column[interface{ Row(int) []byte }](l.t, identities, "identity").Row(i))
			l.rows[seq] = counts{id, l.fingerprint(seq)}
		}
	}
	for _, letter := range b.letters {
		if !lost() {
			l.letters[letter.Seq] = letter.Reason.Code // its subject is its own
		}
	}
	for _, c := range b.conflicts {
		if !lost() {
			l.letters[c.seq] = event.KeyConflict
		}
	}
	gone := map[contract.Key]bool{} // both rows of a key, or neither
	for key, row := range l.decode(b) {
		both := key
		both.Recent = false
		if _, decided := gone[both]; !decided {
			gone[both] = lost()
		}
		if !gone[both] && l.table[key].seq <= row.seq {
			l.table[key] = row
		}
	}
}

// fingerprint is what the columns stage and service_name of a row amount to.
func (l *lab) fingerprint(seq uint64) event.Fingerprint {
	var r event.Record
	if invalid := event.Decode(l.messages[seq-1].Data, &r); invalid != nil {
		l.t.Fatal(invalid)
	}
	return r.Fingerprint()
}

// decode reads a batch's funnel rows as the database does.
func (l *lab) decode(b *batch) map[contract.Key]tableRow {
	var (
		width         proto.ColUInt32
		bucket        proto.ColDateTime
		source, stage = new(proto.ColStr).LowCardinality(), new(proto.ColStr).LowCardinality()
		group         proto.ColUInt32
		recent        proto.ColUInt8
		events, seq   proto.ColUInt64
		articles      proto.ColStr
	)
	into := proto.Results{
		{Name: "width", Data: &width},
		{Name: "bucket", Data: &bucket},
		{Name: "source", Data: source},
		{Name: "stage", Data: stage},
		{Name: "slot_group", Data: &group},
		{Name: "recent", Data: &recent},
		{Name: "events", Data: &events},
		{Name: "article_set", Data: &articles},
		{Name: "seq", Data: &seq},
	}
	rows := map[contract.Key]tableRow{}
	if b.funnel.Rows() == 0 {
		return rows
	}
	var buf proto.Buffer
	block := proto.Block{Rows: b.funnel.Rows(), Columns: len(into)}
	if err := block.EncodeBlock(&buf, blockRevision, b.funnel.Input()); err != nil {
		l.t.Fatal(err)
	}
	if err := block.DecodeBlock(buf.Reader(), blockRevision, into); err != nil {
		l.t.Fatal(err)
	}
	for i := range b.funnel.Rows() {
		key := contract.Key{
			Width: contract.Width(width.Row(i)), Bucket: uint32(bucket.Data[i]), Source: source.Row(i),
			Stage: stage.Row(i), Recent: recent.Row(i) == 1,
		}
		rows[key] = tableRow{events.Row(i), articles.RowBytes(i), seq.Row(i)}
	}
	return rows
}

const blockRevision = 54453

func column[T any](t *testing.T, input proto.Input, name string) T {
	t.Helper()
	for _, c := range input {
		if c.Name == name {
			return c.Data.(T)
		}
	}
	t.Fatalf("no column %s", name)
	panic("unreachable")
}

// Buckets and Rows make the lab the database that the funnel reads from.
func (l *lab) Buckets(_ context.Context, add func(contract.Width, uint32)) error {
	for k := range l.table {
		add(k.Width, k.Bucket)
	}
	return nil
}

func (l *lab) Rows(
	_ context.Context, width contract.Width, buckets []uint32, add func(contract.Key, funnel.Row),
) error {
	for k, row := range l.table {
		if k.Width != width || !slices.Contains(buckets, k.Bucket) {
			continue
		}
		r := funnel.Row{Events: row.events, Seq: row.seq}
		if err := r.Articles.UnmarshalBinary(row.set); err != nil {
			return err
		}
		add(k, r)
	}
	return nil
}

// add adds the group's rows to those of others.
func (l *lab) add(to map[contract.Key]*counted) {
	for key, row := range l.table {
		key.Recent = false
		if to[key] == nil {
			to[key] = new(counted)
		}
		to[key].events += row.events
		var set contract.Set
		if err := set.UnmarshalBinary(row.set); err != nil {
			l.t.Fatal(err)
		}
		if err := to[key].articles.Merge(&set); err != nil {
			l.t.Fatal(err)
		}
	}
}
