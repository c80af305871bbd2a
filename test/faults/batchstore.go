package main

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Faults of object storage.
const (
	slowObjects      kind = "slow-objects"
	cutObjects       kind = "cut-objects"
	wrongObjects     kind = "wrong-objects"
	overwriteObjects kind = "overwrite-objects"
	lyingObjects     kind = "lying-objects"
)

// ofBatchesArea has them.
var ofBatchesArea = area{"Object storage, and the analyser of items", []entry{
	{slowObjects, "object storage answers late, and a few bytes at a time"},
	{cutObjects, "object storage ends answers in the middle"},
	{wrongObjects, "object storage sends other bytes than it has a checksum of"},
	{overwriteObjects, "objects are overwritten with other content when they are read"},
	{lyingObjects, "object storage sends wrong checksums"},
	{badAnalyser, "the analyser of items is slow, silent, wrong, gone, and answers what is too long or too late"},
}}

// ofBatches tells from which faults the reading of batches has to recover by itself.
func ofBatches(k kind) bool { return k == failBatches || slices.Contains(ofBatchesArea.names(), k) }

// stored is an object, and the content by which it is overwritten; nil: it is not.
type stored struct{ content, next []byte }

// objectStore is a server of S3 that reads what this program puts into it, and obeys faults.
type objectStore struct {
	addr string

	mu     sync.Mutex
	of     map[string]*stored // by bucket/key
	faults map[kind]int       // that go on
	random *rand.Rand
}

func newObjectStore(seed uint64, addr string) *objectStore {
	return &objectStore{
		addr: addr, of: map[string]*stored{}, faults: map[kind]int{}, random: rand.New(rand.NewPCG(seed, 60)),
	}
}

// put stores an object, and what overwrites it under that fault.
func (s *objectStore) put(path string, content, next []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.of[path] = &stored{content, next}
}

// begin begins a fault of object storage.
func (s *objectStore) begin(k kind) (end func() error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults[k]++
	return func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.faults[k]--
		return nil
	}
}

// run serves until ctx ends.
func (s *objectStore) run(ctx context.Context) error {
	listener, err := net.Listen("tcp", s.addr)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: s, ReadHeaderTimeout: time.Minute}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	if err := server.Serve(listener); ctx.Err() == nil {
		return err
	}
	return nil
}

// answer is what one request gets.
type answer struct {
	body  []byte
	sum   uint32
	sent  int           // bytes of the body before the connection ends
	wait  time.Duration // before the first byte, and in the middle
	found bool
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// next decides what a request gets, by the faults that go on.
func (s *objectStore) next(path string) (a answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.of[path]
	if o == nil {
		return a
	}
	overwrite := s.faults[overwriteObjects] > 0 && o.next != nil
	if overwrite && s.random.IntN(2) == 0 { // before it is read; else behind that
		o.content, o.next, overwrite = o.next, nil, false
	}
	a = answer{body: o.content, sum: crc32.Checksum(o.content, castagnoli), sent: len(o.content), found: true}
	if overwrite {
		o.content, o.next = o.next, nil
	}
	if s.faults[slowObjects] > 0 {
		a.wait = time.Duration(s.random.IntN(1500)) * time.Millisecond
	}
	if s.faults[cutObjects] > 0 {
		a.sent = s.random.IntN(len(a.body))
	}
	if s.faults[wrongObjects] > 0 {
		a.body = slices.Clone(a.body)
		a.body[s.random.IntN(len(a.body))] ^= 1 << s.random.IntN(8)
	}
	if s.faults[lyingObjects] > 0 {
		a.sum++
	}
	return a
}

// ServeHTTP answers GET /bucket/key.
func (s *objectStore) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a := s.next(strings.TrimPrefix(r.URL.Path, "/"))
	if !a.found {
		w.Header().Set("Content-Type", "application/xml")
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, "<Error><Code>NoSuchKey</Code><Message>there is none</Message></Error>")
		return
	}
	if !pause(r.Context(), a.wait) {
		return
	}
	h := w.Header()
	h.Set("Content-Length", strconv.Itoa(len(a.body)))
	h.Set("Last-Modified", time.Now().UTC().Format(http.TimeFormat))
	h.Set("ETag", strconv.Quote(strconv.FormatUint(uint64(a.sum), 16)))
	h.Set("X-Amz-Checksum-Type", "FULL_OBJECT")
	h.Set("X-Amz-Checksum-Crc32c", base64.StdEncoding.EncodeToString(binary.BigEndian.AppendUint32(nil, a.sum)))
	half := a.sent / 2
	_, _ = w.Write(a.body[:half])
	if a.wait > 0 && (http.NewResponseController(w).Flush() != nil || !pause(r.Context(), a.wait)) {
		return
	}
	_, _ = w.Write(a.body[half:a.sent])
	if a.sent < len(a.body) {
		panic(http.ErrAbortHandler) // ends the connection
	}
}

// pause returns false when ctx ends before.
func pause(ctx context.Context, d time.Duration) bool {
	wait(ctx, d)
	return ctx.Err() == nil
}
