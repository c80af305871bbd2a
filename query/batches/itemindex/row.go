package itemindex

import (
	"encoding/binary"
	"errors"
	"math"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

// Row is an outcome of an item, without its content. Texts that are empty are not known.
type Row struct {
	Job             string
	Batch, Position uint32
	Version         uint64

	Project, Platform, Task, Keyword, Pipeline string
	ContentID, Permalink                       string
	CrawledAt                                  *time.Time // nil: the item does not say
	Status, Category, Code, Message            string
	ReadAt, CreatedAt                          time.Time
}

// scan reads a row of outcomes.sql.
func (r *Row) scan(rows driver.Rows) (seq uint64, err error) {
	err = rows.Scan(&r.Job, &r.Batch, &r.Position, &r.Version, &r.Project, &r.Platform, &r.Task, &r.Keyword, &r.Pipeline,
		&r.ContentID, &r.Permalink, &r.CrawledAt, &r.Status, &r.Category, &r.Code, &r.Message, &r.ReadAt, &r.CreatedAt, &seq)
	return seq, err
}

// rowMark begins the keys of rows. That of the state is another one.
const rowMark = 'r'

// prefix appends what the keys of all rows with a content id begin with.
func prefix(to []byte, id string) []byte {
	to = binary.BigEndian.AppendUint32(append(to, rowMark), uint32(len(id)))
	return append(to, id...)
}

// Sizes of the parts of a key behind the content id.
const (
	timesSize = 1 + 8 + 8 // of the times, before the job
	placeSize = 4 + 4 + 8 // of batch, position and version, behind it
)

// key appends the key of the row. Keys of one content id are in the order of their crawls, the
// newest first, those without a time last; then in that of reading.
func (r *Row) key(to []byte) []byte {
	to = prefix(to, r.ContentID)
	if r.CrawledAt != nil {
		to = binary.BigEndian.AppendUint64(append(to, 0), newestFirst(*r.CrawledAt))
	} else {
		to = binary.BigEndian.AppendUint64(append(to, 1), 0)
	}
	to = binary.BigEndian.AppendUint64(to, newestFirst(r.ReadAt))
	to = append(to, r.Job...)
	to = binary.BigEndian.AppendUint32(to, r.Batch)
	to = binary.BigEndian.AppendUint32(to, r.Position)
	return binary.BigEndian.AppendUint64(to, r.Version)
}

// newestFirst is a number that is the smaller, the later a time is.
func newestFirst(t time.Time) uint64 { return uint64(math.MaxInt64) - uint64(t.UnixNano()) }

func timeOf(n uint64) time.Time { return time.Unix(0, int64(uint64(math.MaxInt64)-n)).UTC() }

// texts are the fields that the value has, in their order.
func (r *Row) texts() [10]*string {
	return [...]*string{
		&r.Project, &r.Platform, &r.Task, &r.Keyword, &r.Pipeline, &r.Permalink, &r.Status, &r.Category, &r.Code, &r.Message,
	}
}

// value appends what the key does not have.
func (r *Row) value(to []byte) []byte {
	to = binary.AppendVarint(to, r.CreatedAt.UnixNano())
	for _, text := range r.texts() {
		to = append(binary.AppendUvarint(to, uint64(len(*text))), *text...)
	}
	return to
}

var errForm = errors.New("it is no row")

// parse reads a row with a content id, whose prefix the key has.
func parse(id string, key, value []byte) (r Row, err error) {
	rest := key[min(len(prefix(nil, id)), len(key)):]
	if len(rest) < timesSize+placeSize {
		return r, errForm
	}
	r.ContentID = id
	if rest[0] == 0 {
		at := timeOf(binary.BigEndian.Uint64(rest[1:]))
		r.CrawledAt = &at
	}
	r.ReadAt = timeOf(binary.BigEndian.Uint64(rest[9:]))
	end := len(rest) - placeSize
	r.Job = string(rest[timesSize:end])
	r.Batch, r.Position = binary.BigEndian.Uint32(rest[end:]), binary.BigEndian.Uint32(rest[end+4:])
	r.Version = binary.BigEndian.Uint64(rest[end+8:])
	created, n := binary.Varint(value)
	if n <= 0 {
		return r, errForm
	}
	r.CreatedAt, value = time.Unix(0, created).UTC(), value[n:]
	for _, text := range r.texts() {
		size, n := binary.Uvarint(value)
		if n <= 0 || size > uint64(len(value)-n) {
			return r, errForm
		}
		*text, value = string(value[n:n+int(size)]), value[n+int(size):]
	}
	if len(value) > 0 {
		return r, errForm
	}
	return r, nil
}
