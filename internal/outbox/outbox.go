package outbox

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// Message is what is to be published.
type Message struct {
	Key     string // messages of one key keep their order
	Subject string
	ID      string // names the message on the stream
	Body    []byte
}

// Outbox holds the messages for one stream. It is safe for concurrent use.
type Outbox struct {
	stream string
	woken  chan struct{}
}

// New returns the outbox of a stream.
func New(stream string) *Outbox { return &Outbox{stream, make(chan struct{}, 1)} }

// Sender is a transaction, or a connection in one.
type Sender interface {
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
}

// Add adds messages in the caller's transaction. After the commit the caller calls
// Wake.
func (o *Outbox) Add(ctx context.Context, tx Sender, messages []Message) error {
	if len(messages) == 0 {
		return nil
	}
	var b pgx.Batch
	o.Queue(&b, messages)
	if err := tx.SendBatch(ctx, &b).Close(); err != nil {
		return fmt.Errorf("add %d messages to the outbox of %s: %w", len(messages), o.stream, err)
	}
	return nil
}

// Queue is Add with the statements that the caller sends next.
func (o *Outbox) Queue(b *pgx.Batch, messages []Message) {
	n := len(messages)
	keys, subjects, ids, bodies := make([]string, n), make([]string, n), make([]string, n), make([][]byte, n)
	for i, m := range messages {
		keys[i], subjects[i], ids[i], bodies[i] = m.Key, m.Subject, m.ID, m.Body
	}
	b.Queue(`INSERT INTO millrace.message_outbox (stream, key, subject, message_id, body)
		SELECT $1, u.key, u.subject, u.id, u.body
		FROM unnest($2::text[], $3::text[], $4::text[], $5::bytea[])
			WITH ORDINALITY AS u (key, subject, id, body, place)
		ORDER BY u.place`, o.stream, keys, subjects, ids, bodies)
}

// Wake has a publisher of this process look at once. Publishers of other processes
// look after Config.Poll at most.
func (o *Outbox) Wake() {
	select {
	case o.woken <- struct{}{}:
	default:
	}
}
