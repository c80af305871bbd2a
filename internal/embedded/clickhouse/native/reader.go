package native

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Revisions of the protocol: the newest and the oldest that are spoken, and those
// that add something which is read or written here.
const (
	Revision       = 54459
	OldestRevision = 54453

	revisionFlags      = 54454 // a flag between a column's type and its data
	revisionAddendum   = 54458 // what a client adds to its hello
	revisionParameters = 54459 // query parameters
)

// Packets of a client.
const (
	ClientHello  = 0
	ClientQuery  = 1
	ClientData   = 2
	ClientCancel = 3
	ClientPing   = 4
)

// Limits on what a client sends.
const (
	maxName     = 4 << 10 // names, logins, settings' names
	maxSettings = 1000
	maxEmpty    = 256 // a block without columns, compressed
)

// ErrProtocol marks input that does not follow the protocol.
var ErrProtocol = errors.New("protocol violation")

// Reader decodes a client's packets.
type Reader struct {
	*bufio.Reader
	revision uint64
	peer     bool // see [Reader.Peer]
}

// NewReader returns a reader of src at [Revision]. [Reader.ReadHello] lowers it
// to the revision of a client that is older.
func NewReader(src io.Reader) *Reader {
	return &Reader{Reader: bufio.NewReaderSize(src, 256<<10), revision: Revision}
}

// uvarint reads a number that must not exceed limit.
func (r *Reader) uvarint(what string, limit uint64) (uint64, error) {
	v, err := r.Packet()
	if err != nil {
		return 0, fmt.Errorf("read %s: %w", what, err)
	}
	if v > limit {
		return 0, fmt.Errorf("read %s: %w: %d is above %d", what, ErrProtocol, v, limit)
	}
	return v, nil
}

func (r *Reader) str(what string, limit uint64) (string, error) {
	n, err := r.uvarint("length of "+what, limit)
	if err != nil {
		return "", err
	}
	// Grown as the bytes arrive: a lying length costs no memory.
	buf := make([]byte, 0, min(n, 64<<10))
	for uint64(len(buf)) < n {
		if _, err := r.Peek(1); err != nil {
			return "", fmt.Errorf("read %s: %w", what, noEOF(err))
		}
		part, _ := r.Peek(int(min(n-uint64(len(buf)), uint64(r.Buffered()), uint64(r.Size()))))
		buf = append(buf, part...)
		_, _ = r.Discard(len(part))
	}
	return string(buf), nil
}

func (r *Reader) skip(what string, n int) error {
	if _, err := r.Discard(n); err != nil {
		return fmt.Errorf("read %s: %w", what, noEOF(err))
	}
	return nil
}

func (r *Reader) byte(what string) (byte, error) {
	b, err := r.ReadByte()
	if err != nil {
		return 0, fmt.Errorf("read %s: %w", what, noEOF(err))
	}
	return b, nil
}

// Packet reads the code of the next packet. The end of the connection between
// two packets is [io.EOF].
func (r *Reader) Packet() (uint64, error) {
	v, err := binary.ReadUvarint(r)
	if errors.Is(err, errOverflow) {
		err = fmt.Errorf("%w: %w", ErrProtocol, err)
	}
	return v, err
}

// errOverflow is what [binary.ReadUvarint] returns for a number of more than 64 bits.
var _, errOverflow = binary.ReadUvarint(strings.NewReader(strings.Repeat("\xff", binary.MaxVarintLen64+1)))

// noEOF makes an end within a packet what it is.
func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
