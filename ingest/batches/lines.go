package batches

import (
	"container/heap"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/millrace-io/millrace/schemas/stream"

	schema "github.com/millrace-io/millrace/schemas/batches"
)

// message is what the stream has of a message, and what it says.
type message struct {
	subject string
	at      time.Time // when the stream received it
	data    []byte
	trace   string // see stream.TraceOf; empty: nobody traces it
	about   schema.Announcement
	broken  []schema.Invalid
}

func newMessage(subject string, at time.Time, header nats.Header, data []byte) *message {
	about, broken := schema.ReadAnnouncement(data)
	return &message{subject, at, data, header.Get(stream.TraceParent), about, broken}
}

// size is about how many bytes of memory a message takes.
func (m *message) size() int { return 2 * len(m.data) }

// entry is a message that is to be read.
type entry struct {
	seq     uint64
	bucket  string
	message *message // nil: it is to be fetched from the stream
	tries   *tries   // nil: none has failed
}

// tries are the attempts at a message that have failed.
type tries struct {
	first  time.Time // when the first one failed
	failed int
}

// lines hold the messages that wait, in a line for each bucket. Buckets take turns, so that
// a bucket with many messages does not keep those of others waiting, and no bucket has more
// than perBucket of them read at once, so that a slow one leaves room. It is not safe for
// concurrent use.
type lines struct {
	perBucket int
	keep      int // how large the messages that wait in memory may be; others are fetched again
	of        map[string]*line
	turns     []*line // that may go next, in this order, each once
	later     delayed
	waiting   int // in lines and later
	kept      int
}

type line struct {
	bucket  string
	entries []entry
	running int
	queued  bool // it is in turns
}

// delayedEntry waits for its next attempt.
type delayedEntry struct {
	entry
	at time.Time
}

// add puts a message at the end of its line.
func (l *lines) add(e entry) {
	if e.message != nil && l.kept+e.message.size() > l.keep {
		e.message = nil
	}
	if e.message != nil {
		l.kept += e.message.size()
	}
	if l.of == nil {
		l.of = map[string]*line{}
	}
	of := l.of[e.bucket]
	if of == nil {
		of = &line{bucket: e.bucket}
		l.of[e.bucket] = of
	}
	of.entries = append(of.entries, e)
	l.waiting++
	l.queue(of)
}

// addLater puts a message at the end of its line when it is time.
func (l *lines) addLater(e entry, at time.Time) {
	e.message = nil
	heap.Push(&l.later, delayedEntry{e, at})
	l.waiting++
}

// due moves the messages whose time has come to their lines, and returns when the next
// one's comes, the zero time if there is none.
func (l *lines) due(now time.Time) time.Time {
	for len(l.later) > 0 && !l.later[0].at.After(now) {
		l.waiting--
		l.add(heap.Pop(&l.later).(delayedEntry).entry)
	}
	if len(l.later) == 0 {
		return time.Time{}
	}
	return l.later[0].at
}

func (l *lines) queue(of *line) {
	if !of.queued && len(of.entries) > 0 && of.running < l.perBucket {
		of.queued = true
		l.turns = append(l.turns, of)
	}
}

// next takes the message whose turn it is. It returns false if none may be read now.
func (l *lines) next() (entry, bool) {
	if len(l.turns) == 0 {
		return entry{}, false
	}
	of := l.turns[0]
	l.turns, of.queued = l.turns[1:], false
	e := of.entries[0]
	of.entries[0] = entry{}
	of.entries = of.entries[1:]
	of.running++
	l.waiting--
	if e.message != nil {
		l.kept -= e.message.size()
	}
	l.queue(of)
	return e, true
}

// done notes that a message of a bucket is not being read any more.
func (l *lines) done(bucket string) {
	of := l.of[bucket]
	if of.running--; of.running == 0 && len(of.entries) == 0 {
		delete(l.of, bucket)
	}
	l.queue(of)
}

// delayed implements heap.Interface, the earliest first.
type delayed []delayedEntry

func (d delayed) Len() int           { return len(d) }
func (d delayed) Less(i, j int) bool { return d[i].at.Before(d[j].at) }
func (d delayed) Swap(i, j int)      { d[i], d[j] = d[j], d[i] }
func (d *delayed) Push(e any)        { *d = append(*d, e.(delayedEntry)) }

func (d *delayed) Pop() any {
	last := (*d)[len(*d)-1]
	(*d)[len(*d)-1] = delayedEntry{}
	*d = (*d)[:len(*d)-1]
	return last
}
