package batches

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace-io/millrace/internal/embedded/embeddedtest"
	"github.com/millrace-io/millrace/internal/natstest"
	"github.com/millrace-io/millrace/internal/objects"
	"github.com/millrace-io/millrace/internal/parts"
	"github.com/millrace-io/millrace/schemas/stream"

	schema "github.com/millrace-io/millrace/schemas/batches"
	"github.com/millrace-io/millrace/schemas/object"
)

var tables embeddedtest.Postgres

func TestMain(m *testing.M) { os.Exit(tables.Main(m)) }

// patience is how long a test waits for what has to happen.
const patience = 2 * time.Minute

var allOn = schema.Modes{New: true, Legacy: true, NewShare: 1}

// room is where readers of one test work.
type room struct {
	*testing.T
	nats    *natstest.Server
	js      jetstream.JetStream
	storage objects.Storage
	stored  *objects.NATS
	cfg     ReadersConfig
	start   schema.Modes
}

func newRoom(t *testing.T) *room {
	t.Helper()
	r := &room{T: t, nats: natstest.Start(t, stream.Config{}), start: allOn}
	r.js = r.nats.JetStream()
	r.stored = objects.NewNATS(r.js, 1)
	r.storage = r.stored
	return r
}

func (r *room) modes() *Modes {
	r.Helper()
	m, err := NewModes(r.js, r.start)
	if err != nil {
		r.Fatal(err)
	}
	return m
}

// run runs readers, as a new process would, until they are stopped.
func (r *room) run() (stop func()) {
	r.Helper()
	readers, err := NewReaders(r.cfg, ReadersDeps{
		JetStream: r.nats.JetStream(), Postgres: tables.Pool(r), Storage: r.storage, Modes: r.modes(),
		Registry: prometheus.NewRegistry(), Log: embeddedtest.Log(r),
	})
	if err != nil {
		r.Fatal(err)
	}
	return embeddedtest.Go(r, readers.Run)
}

func (r *room) put(bucket, key string, content []byte) {
	r.Helper()
	if _, err := r.stored.Put(r.Context(), object.Name{Bucket: bucket, Key: key}, bytes.NewReader(content)); err != nil {
		r.Fatal(err)
	}
}

func (r *room) publish(texts ...string) {
	r.Helper()
	for _, text := range texts {
		if _, err := r.js.Publish(r.Context(), stream.BatchCollected, []byte(text)); err != nil {
			r.Fatal(err)
		}
	}
}

func event(path, job string, index int) string {
	return fmt.Sprintf(`{"payload":{"minio_path":%q,"job_id":%q,"batch_index":%d,"platform":"tiktok"}}`, path, job, index)
}

// left waits until the stream has so many messages.
func (r *room) left(n uint64) {
	r.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		st, err := r.js.Stream(r.Context(), stream.Batches)
		if err == nil && st.CachedInfo().State.Msgs == n {
			return
		}
		if time.Now().After(end) {
			r.Fatalf("the stream has %d messages, want %d: %v", st.CachedInfo().State.Msgs, n, err)
		}
	}
}

// read returns what was read, in its order.
func (r *room) read() (all []*schema.Read) {
	r.Helper()
	st, err := r.js.Stream(r.Context(), stream.BatchesRead)
	if err != nil {
		r.Fatal(err)
	}
	var joiner parts.Joiner
	for seq := uint64(1); seq <= st.CachedInfo().State.LastSeq; seq++ {
		m, err := st.GetMsg(r.Context(), seq)
		if err != nil {
			r.Fatal(err)
		}
		value, err := joiner.Take(m.Data)
		if err != nil {
			r.Fatal(err)
		}
		if value == nil {
			continue
		}
		one, err := schema.ParseRead(value)
		if err != nil {
			r.Fatal(err)
		}
		all = append(all, one)
	}
	return all
}

// letters are the codes of dead letters by their sequences.
func (r *room) letters() map[int]string {
	r.Helper()
	dlq, err := r.js.Stream(r.Context(), stream.DLQ)
	if err != nil {
		r.Fatal(err)
	}
	all := map[int]string{}
	for seq := uint64(1); seq <= dlq.CachedInfo().State.LastSeq; seq++ {
		m, err := dlq.GetMsg(r.Context(), seq)
		if err != nil {
			r.Fatal(err)
		}
		n, err := strconv.Atoi(m.Header.Get(stream.HeaderSeq))
		if err != nil || all[n] != "" || m.Header.Get(stream.HeaderReason) == "" || len(m.Data) == 0 {
			r.Errorf("letter %d: %v, %v", seq, m.Header, err)
		}
		all[n] = m.Header.Get(stream.HeaderField) + "=" + m.Header.Get(stream.HeaderCode)
	}
	return all
}

func zipped(content []byte) []byte {
	var zip bytes.Buffer
	w := gzip.NewWriter(&zip)
	_, _ = w.Write(content)
	_ = w.Close()
	return zip.Bytes()
}

func zstandard(content []byte) []byte {
	w, err := zstd.NewWriter(nil)
	if err != nil {
		panic(err)
	}
	return w.EncodeAll(content, nil)
}

// items returns n items as texts.
func items(n int) (texts []string) {
	for i := range n {
		texts = append(texts, fmt.Sprintf(`{"content_id":"%d","fetch_status":"success"}`, i))
	}
	return texts
}

// TestFormats: each format of messages and of objects is read, and what cannot be read has
// one outcome (invariants 1 and 3). The stream is empty in the end.
func TestFormats(t *testing.T) {
	r := newRoom(t)
	r.cfg.Patience = time.Second
	array, lines := "["+strings.Join(items(3), ",")+"]", strings.Join(items(4), "\n")
	r.put("crawl", "a.json", []byte(array))
	r.put("crawl", "b/lines.json.gz", zipped([]byte(lines)))
	r.put("crawl", "one.zst", zstandard([]byte(items(1)[0])))
	r.put("crawl", "cut.gz", zipped([]byte(lines))[:30])
	r.put("crawl", "bomb.zst", zstandard(make([]byte, 65<<20)))
	r.put("crawl", "none.json", []byte(`{"status":"ok"}`))
	r.put("crawl", "empty", nil)
	r.put("crawl", "many", bytes.Repeat([]byte("{}\n"), schema.MaxItems+1))
	r.publish(
		event("crawl/a.json", "p-b-0", 1),
		`{"data_ref":{"bucket":"crawl","path":"b/lines.json.gz"},"job_id":"p-b-0","batch_index":2}`,
		`{"data_ref":{"bucket":"crawl","path":"one.zst"}}`,
		`{"job_id":"p-b-0","batch_index":3,"items":[`+strings.Join(items(2), ",")+`]}`,
		event("crawl/cut.gz", "p-b-0", 4),           // 5
		event("crawl/bomb.zst", "p-b-0", 5),         // 6
		event("crawl/missing", "p-b-0", 6),          // 7
		event("nowhere/missing", "p-b-0", 7),        // 8
		event("crawl/../../etc/passwd", "p-b-0", 8), // 9
		`{"payload":{"minio_path":"crawl/a.json"}}`, // 10
		`no JSON`,                                       // 11
		event("crawl/none.json", "p-b-0", 9),            // 12
		event("crawl/empty", "p-b-0", 10),               // 13
		event("crawl/many", "p-b-0", 11),                // 14
		`{"job_id":"p-b-0","batch_index":4,"items":[]}`, // 15
	)
	stop := r.run()
	r.left(0)
	stop()
	want := map[int]string{
		5: "=object_damaged", 6: "=object_too_large", 7: "=object_missing", 8: "=object_missing",
		9: "payload.minio_path=object_name", 10: "payload.job_id=missing", 11: "=json", 14: "=too_many_items",
	}
	if got := r.letters(); !reflect.DeepEqual(got, want) {
		t.Errorf("letters %v\nwant    %v", got, want)
	}
	got := map[schema.ID]string{}
	for _, one := range r.read() {
		text := fmt.Sprint(one.About.Format, " ", one.About.Object, " ")
		for _, i := range one.Items {
			text += i.ContentID + string(i.Category) + ";"
		}
		if one.AnnouncedAt.IsZero() || got[one.About.Batch] != "" {
			t.Errorf("%+v", one)
		}
		got[one.About.Batch] = text
	}
	id := func(index int32) schema.ID { return schema.ID{Job: "p-b-0", Index: index} }
	wantRead := map[schema.ID]string{
		id(1): "event crawl/a.json 0;1;2;", id(2): "legacy crawl/b/lines.json.gz 0;1;2;3;",
		{Job: "legacy:crawl/one.zst"}: "legacy crawl/one.zst 0;", id(3): "inline / 0;1;",
		id(9): "event crawl/none.json parsing;", id(10): "event crawl/empty parsing;", id(4): "inline / ",
	}
	if !reflect.DeepEqual(got, wantRead) {
		t.Errorf("read %v\nwant %v", got, wantRead)
	}
}

// TestLateObject: an object that comes after its announcement is found.
func TestLateObject(t *testing.T) {
	r := newRoom(t)
	stop := r.run()
	defer stop()
	r.publish(event("crawl/late.json", "p-b-0", 1))
	r.publish(`{"job_id":"p-b-0","batch_index":2,"items":[]}`)
	r.left(1) // the second one, which waits for nothing, is read; the first one was asked for
	r.put("crawl", "late.json", []byte("["+strings.Join(items(2), ",")+"]"))
	r.left(0)
	if got := r.read(); len(got) != 2 || len(got[1].Items) != 2 || len(r.letters()) != 0 {
		t.Errorf("%+v", got)
	}
}

// set changes the modes of an installation.
func (r *room) set(to schema.Modes) {
	r.Helper()
	if _, err := r.modes().Set(r.Context(), func(schema.Modes) schema.Modes { return to }); err != nil {
		r.Fatal(err)
	}
}

// TestModes: messages whose mode is off wait, whatever was read behind them, and are taken
// when it is on (invariant 2). A share takes whole jobs.
func TestModes(t *testing.T) {
	r := newRoom(t)
	r.start = schema.Modes{}
	r.put("crawl", "a.json", []byte("[]"))
	const jobs, each = 40, 2
	in := map[string]int{}
	for n := range jobs {
		job := fmt.Sprintf("p%d-b-0", n)
		for index := range each {
			r.publish(event("crawl/a.json", job, index))
		}
		if (schema.Modes{New: true, NewShare: 0.4}).Take(schema.Announcement{Batch: schema.ID{Job: job}}) {
			in[job] = each
		}
	}
	r.publish(`{"data_ref":{"bucket":"crawl","path":"a.json"}}`, `{"job_id":"p-b-0","batch_index":2,"items":[]}`)
	stop := r.run()
	r.left(jobs*each + 1) // inline items have no mode
	r.set(schema.Modes{Legacy: true})
	r.left(jobs * each)
	r.set(schema.Modes{Legacy: true, New: true, NewShare: 0.4})
	r.left(uint64(each * (jobs - len(in))))
	stop()
	got := map[string]int{}
	for _, one := range r.read() {
		if one.About.Format == schema.Event {
			got[one.About.Batch.Job]++
		}
	}
	if !reflect.DeepEqual(got, in) || len(in) == 0 || len(in) == jobs {
		t.Errorf("read of a share %v, want %v", got, in)
	}
	// The environment says something else than before: now that holds. Then it says the same
	// again, and what was set since stays.
	r.start = schema.Modes{Legacy: true}
	stop = r.run()
	r.waitModes(r.start)
	stop()
	r.set(schema.Modes{New: true, NewShare: 1})
	stop = r.run()
	r.left(0)
	stop()
	if len(r.letters()) > 0 {
		t.Error(r.letters())
	}
}

func (r *room) waitModes(want schema.Modes) {
	r.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		got, err := r.modes().Get(r.Context())
		if err == nil && got == want {
			return
		}
		if time.Now().After(end) {
			r.Fatalf("modes %+v, want %+v: %v", got, want, err)
		}
	}
}

// blocking is a storage one of whose buckets does not answer, and another one changes
// whenever it is read.
type blocking struct {
	objects.Storage
	slow chan struct{}
}

func (b blocking) Open(ctx context.Context, o object.Name) (objects.Object, error) {
	switch o.Bucket {
	case "slow":
		select {
		case <-b.slow:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	case "changing":
		object, err := b.Storage.Open(ctx, object.Name{Bucket: "crawl", Key: o.Key})
		return changing{object}, err
	case "failing":
		return nil, errors.New("access denied")
	}
	return b.Storage.Open(ctx, o)
}

type changing struct{ objects.Object }

func (changing) Changed(context.Context) (bool, error) { return true, nil }

// TestSlowBucket: a bucket that does not answer, however many of its messages wait, keeps no
// other waiting (invariant 4). An object that changes whenever it is read is a dead letter;
// a storage that refuses is tried again, and loses nothing.
func TestSlowBucket(t *testing.T) {
	r := newRoom(t)
	r.cfg.Patience = time.Second
	slow := make(chan struct{})
	r.storage = blocking{r.stored, slow}
	r.put("crawl", "a.json", []byte("[]"))
	r.put("slow", "a.json", []byte("[]"))
	for i := range 20 {
		r.publish(event("slow/a.json", "slow", i))
	}
	r.publish(event("changing/a.json", "changing", 0), event("failing/a.json", "failing", 0))
	for i := range 20 {
		r.publish(event("crawl/a.json", "fast", i))
	}
	stop := r.run()
	r.left(21) // the slow ones, and the one that fails
	if got := r.letters(); !reflect.DeepEqual(got, map[int]string{21: "=object_changing"}) {
		t.Error(got)
	}
	close(slow)
	r.left(1)
	stop()
	if len(r.read()) != 40 || len(r.letters()) != 1 {
		t.Errorf("%d were read", len(r.read()))
	}
}

// TestKilled: whatever is killed and flipped, each batch is read, with one content, and the
// stream is empty in the end.
func TestKilled(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, seed))
	r := newRoom(t)
	want := map[schema.ID]int{}
	for round := range 8 {
		stop := r.run()
		for i := range 20 {
			n, key := rng.IntN(30), fmt.Sprintf("%d/%d", round, i)
			content := "[" + strings.Join(items(n), ",") + "]"
			switch id := (schema.ID{Job: fmt.Sprint("j", round), Index: int32(i)}); rng.IntN(3) {
			case 0:
				want[id] = n
				r.publish(event("crawl/"+key, id.Job, i))
				r.put("crawl", key, []byte(content))
			case 1:
				want[id] = n
				r.put("crawl", key, zipped([]byte(content)))
				r.publish(fmt.Sprintf(`{"data_ref":{"bucket":"crawl","path":%q},"job_id":%q,"batch_index":%d}`, key, id.Job, i))
			case 2:
				want[id] = n
				r.publish(fmt.Sprintf(`{"job_id":%q,"batch_index":%d,"items":%s}`, id.Job, i, content))
			}
			if rng.IntN(6) == 0 {
				r.set(schema.Modes{New: rng.IntN(2) == 0, Legacy: rng.IntN(2) == 0, NewShare: rng.Float64()})
			}
		}
		stop()
	}
	r.set(allOn)
	stop := r.run()
	r.left(0)
	stop()
	got, hashes := map[schema.ID]int{}, map[schema.ID][32]byte{}
	for _, one := range r.read() {
		id := one.About.Batch
		if h, there := hashes[id]; there && h != one.Hash {
			t.Errorf("%+v has two contents", id)
		}
		got[id], hashes[id] = len(one.Items), one.Hash
	}
	if !reflect.DeepEqual(got, want) || len(r.letters()) > 0 {
		t.Errorf("read %v\nwant %v\nletters %v", got, want, r.letters())
	}
}

// TestAnnounce: documents of each format are announced, and one of no format is told all
// of its faults.
func TestAnnounce(t *testing.T) {
	s := serve(t, authOff)
	for _, test := range []struct {
		text   string
		status int
		told   string
	}{
		{event("crawl/a.json", "p-b-0", 1), 202, "event p-b-0 1 1"},
		{`{"data_ref":{"bucket":"crawl","path":"a"}}`, 202, "legacy legacy:crawl/a 0 2"},
		{`{"job_id":"p-b-0","batch_index":2,"items":[{"id":1}]}`, 202, "inline p-b-0 2 3"},
		{`{"payload":{"minio_path":"crawl/../a"}}`, 400, "payload.minio_path=object_name payload.job_id=missing payload.batch_index=missing"},
		{`{"payload":{"minio_path":"crawl/../a","job_id":"a","batch_index":0}}`, 400, "payload.minio_path=object_name"},
		{`[]`, 400, "=json"},
		{`{"job_id":"a","batch_index":2,"items":["` + strings.Repeat("a", 9<<20) + `"]}`, 413, "=body_size"},
	} {
		status, told := s.post("/batches", test.text)
		if status != test.status || told != test.told {
			t.Errorf("%.80s: %d %q, want %d %q", test.text, status, told, test.status, test.told)
		}
	}
	st, err := s.js.Stream(t.Context(), stream.Batches)
	if err != nil || st.CachedInfo().State.Msgs != 3 {
		t.Errorf("%+v, %v", st.CachedInfo().State, err)
	}
}

// TestModesOverHTTP: what a request leaves out stays as it is.
func TestModesOverHTTP(t *testing.T) {
	s := serve(t, authOff)
	var got []string
	for _, change := range []string{"", `{"new_mode_share":0.25}`, `{"legacy_mode":false}`, `{"new_mode":false,"new_mode_share":1}`} {
		method := "PUT"
		if change == "" {
			method = "GET"
		}
		_, body := s.request(method, "/batches/modes", change)
		var m BatchModes
		if err := json.Unmarshal(body, &m); err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprint(m.NewMode, m.LegacyMode, m.NewModeShare))
	}
	if want := []string{"true true 1", "true true 0.25", "true false 0.25", "false false 1"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if status, _ := s.request("PUT", "/batches/modes", `{"new_mode_share":1.5}`); status != 400 {
		t.Errorf("a share of 1.5 is answered with %d", status)
	}
}
