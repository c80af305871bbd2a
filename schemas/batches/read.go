package batches

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Read is what was read of a batch: what a message announced, and each item with its
// outcome.
type Read struct {
	About Announcement // without its items
	// AnnouncedAt is when the stream received the message.
	AnnouncedAt time.Time
	// Hash is the SHA-256 of the content, as it is after decompression.
	Hash  [32]byte
	Items []Item
	// Retry: Items is one item of the batch, which was tried again; nil: they are all of it.
	Retry *Retry
}

// Retry says which outcome of which item of a batch it is that a retry has brought.
type Retry struct {
	Position int
	Version  int   // 1 and more; 0 is the outcome that the batch has brought
	ReadAt   int64 // when the batch was read, Unix nanoseconds
}

// Item is an item as it was read, with its outcome.
type Item struct {
	Outcome
	Content []byte
}

// about is the first part of a Read as it is written.
type about struct {
	About       Announcement
	AnnouncedAt int64 // Unix nanoseconds
	Hash        [32]byte
	Items       int
	Retry       *Retry `json:",omitempty"`
}

// itemSize is how many bytes an item has beside its content, as a rule.
const itemSize = 256

// Append appends the binary form of what was read, which ParseRead reads.
func (r *Read) Append(to []byte) ([]byte, error) {
	first := about{r.About, r.AnnouncedAt.UnixNano(), r.Hash, len(r.Items), r.Retry}
	first.About.Items, first.About.Records = nil, nil
	text, err := json.Marshal(first)
	if err != nil {
		return nil, fmt.Errorf("write what was read of a batch: %w", err)
	}
	size := len(text)
	for i := range r.Items {
		size += len(r.Items[i].Content) + itemSize
	}
	to = appendText(slices.Grow(to, size), text)
	for i := range r.Items {
		item := &r.Items[i]
		for _, text := range item.texts() {
			to = appendText(to, *text)
		}
		to = appendText(appendText(to, item.Details), item.Content)
		crawled := int64(0)
		if !item.CrawledAt.IsZero() {
			crawled = item.CrawledAt.UnixNano()
		}
		to = binary.AppendVarint(to, crawled)
	}
	return to, nil
}

// texts are the fields of an outcome that are texts, in the order in which they are written.
func (o *Outcome) texts() [9]*string {
	return [...]*string{
		&o.ContentID, &o.Status, (*string)(&o.Category), &o.Code, &o.Message, &o.Permalink, &o.TaskType, &o.Keyword, &o.Pipeline,
	}
}

func appendText[T string | []byte | json.RawMessage](to []byte, text T) []byte {
	return append(binary.AppendUvarint(to, uint64(len(text))), text...)
}

var errForm = errors.New("it is not what was read of a batch")

// ParseRead reads the binary form. Contents and details are parts of it.
func ParseRead(from []byte) (*Read, error) {
	p := parser{left: from}
	var first about
	if err := json.Unmarshal(p.text(), &first); err != nil || p.bad {
		return nil, errForm
	}
	if first.Items < 0 || first.Items > MaxItems || first.Items > len(p.left) {
		return nil, fmt.Errorf("%w: it says that it has %d items", errForm, first.Items)
	}
	if err := first.About.check(); err != nil {
		return nil, fmt.Errorf("%w: %w", errForm, err)
	}
	if t := first.Retry; t != nil &&
		(first.Items != 1 || t.Position < 0 || t.Position >= MaxItems || t.Version < 1 || t.ReadAt < 0) {
		return nil, fmt.Errorf("%w: it is no retry of one item", errForm)
	}
	r := &Read{
		Retry: first.Retry, About: first.About, AnnouncedAt: time.Unix(0, first.AnnouncedAt).UTC(), Hash: first.Hash,
		Items: make([]Item, first.Items),
	}
	for i := range r.Items {
		p.item(&r.Items[i])
	}
	if p.bad || len(p.left) > 0 {
		return nil, fmt.Errorf("%w: its items do not end where it ends", errForm)
	}
	return r, nil
}

// parser reads the binary form, and notes where the bytes do not have that form.
type parser struct {
	left []byte
	bad  bool
}

func (p *parser) item(item *Item) {
	for _, text := range item.texts() {
		*text = string(p.text())
	}
	if details := p.text(); len(details) > 0 {
		item.Details = details
	}
	item.Content = p.text()
	if crawled := p.number(); crawled != 0 {
		item.CrawledAt = time.Unix(0, crawled).UTC()
	}
}

func (p *parser) text() []byte {
	size, n := binary.Uvarint(p.left)
	if n <= 0 || size > uint64(len(p.left)-n) {
		p.bad, p.left = true, nil
		return nil
	}
	text := p.left[n : n+int(size) : n+int(size)]
	p.left = p.left[n+int(size):]
	return text
}

func (p *parser) number() int64 {
	number, n := binary.Varint(p.left)
	if n <= 0 {
		p.bad, p.left = true, nil
		return 0
	}
	p.left = p.left[n:]
	return number
}
