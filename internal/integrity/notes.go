package integrity

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"

	"github.com/millrace-io/millrace/schemas/instant"
)

// note is what is known of a stream.
type note struct {
	Created  instant.Time `json:"created"`
	First    uint64       `json:"first"`
	Last     uint64       `json:"last"`      // the highest sequence ever seen
	LastTime instant.Time `json:"last_time"` // of the message there
	Msgs     uint64       `json:"msgs"`
	Holes    Ranges       `json:"holes,omitempty"`    // sequences that were deleted, of a stream that is whole
	Deleted  int          `json:"deleted"`            // how many the server says there are
	Lost     Ranges       `json:"lost,omitempty"`     // and not accepted
	Remarks  []string     `json:"remarks,omitempty"`  // of losses whose sequences are not known
	Accepted Ranges       `json:"accepted,omitempty"` // lost, and accepted
}

// notes are written to a file outside of NATS.
type notes struct {
	Server  string           `json:"server"` // the id of the server that was connected
	Streams map[string]*note `json:"streams"`
}

// errNotes is the error of a file of notes that cannot be believed.
var errNotes = errors.New("the file is damaged")

// readNotes reads a file of notes. Without a file there are none.
func readNotes(file string) (n notes, err error) {
	n.Streams = map[string]*note{}
	data, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return n, nil
	}
	if err != nil {
		return n, fmt.Errorf("read notes of streams: %w", err)
	}
	sum, text, ok := bytes.Cut(data, []byte("\n"))
	if !ok || string(sum) != checksum(text) {
		return n, fmt.Errorf("read notes of streams in %s: %w: its checksum is wrong", file, errNotes)
	}
	if err := json.Unmarshal(text, &n); err != nil || n.Streams == nil {
		return n, fmt.Errorf("read notes of streams in %s: %w: %w", file, errNotes, err)
	}
	return n, nil
}

func checksum(text []byte) string {
	return fmt.Sprintf("%08x", crc32.Checksum(text, crc32.MakeTable(crc32.Castagnoli)))
}

// write writes the file. After a crash there is the file as it was before or as
// it is now.
func (n notes) write(file string) error {
	text, err := json.Marshal(n)
	if err != nil {
		return fmt.Errorf("write notes of streams: %w", err)
	}
	f, err := os.CreateTemp(filepath.Dir(file), filepath.Base(file)+".tmp-*")
	if err != nil {
		return fmt.Errorf("write notes of streams: %w", err)
	}
	_, err = fmt.Fprintf(f, "%s\n%s", checksum(text), text)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), file)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("write notes of streams: %w", err), os.Remove(f.Name()))
	}
	return nil
}
