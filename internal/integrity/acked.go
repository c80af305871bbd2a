package integrity

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"time"
)

// acked has the highest sequence of each stream that was acknowledged to this
// process. It is written to a file of its own so often that a process that is killed
// leaves nearly all of them there. The file is not synced: when the machine loses its
// power, the notes hold, which are a second older at most.
type acked struct {
	file string
	wake chan struct{}

	mu      sync.Mutex
	server  string // the id of the server that was connected
	seqs    map[string]uint64
	written bool
}

// ackedEvery is the least time between two writes.
const ackedEvery = 10 * time.Millisecond

// ackedFile is what the file has.
type ackedFile struct {
	Server string            `json:"server"`
	Seqs   map[string]uint64 `json:"seqs"`
}

func newAcked(file string) *acked {
	return &acked{file: file, wake: make(chan struct{}, 1), seqs: map[string]uint64{}, written: true}
}

// read returns what was acknowledged while a server was connected, nil when the file
// is of another time or cannot be read: then the notes have to do.
func (a *acked) read(server string) map[string]uint64 {
	data, err := os.ReadFile(a.file)
	if err != nil {
		return nil
	}
	sum, text, _ := bytes.Cut(data, []byte("\n"))
	var f ackedFile
	if string(sum) != checksum(text) || json.Unmarshal(text, &f) != nil || f.Server != server {
		return nil
	}
	return f.Seqs
}

// note takes note of a sequence.
func (a *acked) note(stream string, seq uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if seq <= a.seqs[stream] {
		return
	}
	a.seqs[stream], a.written = seq, false
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// of says which server is connected.
func (a *acked) of(server string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.server = server
}

// cut forgets sequences beyond the end of a stream, which is noted.
func (a *acked) cut(stream string, last uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.seqs[stream] > last {
		a.seqs[stream], a.written = last, false
	}
}

// write writes the file if there is anything new.
func (a *acked) write() error {
	a.mu.Lock()
	text, err := json.Marshal(ackedFile{a.server, a.seqs})
	skip := a.written
	a.written = true
	a.mu.Unlock()
	if skip || err != nil {
		return err
	}
	next := a.file + ".next"
	if err := os.WriteFile(next, fmt.Appendf(nil, "%s\n%s", checksum(text), text), 0o600); err != nil {
		return fmt.Errorf("note what was acknowledged: %w", err)
	}
	if err := os.Rename(next, a.file); err != nil {
		return fmt.Errorf("note what was acknowledged: %w", err)
	}
	return nil
}

// keep writes until ctx ends, or the file cannot be written.
func (a *acked) keep(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return a.write()
		case <-a.wake:
		}
		if err := a.write(); err != nil {
			return err
		}
		time.Sleep(ackedEvery)
	}
}
