package views

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/millrace-io/millrace/internal/auth"
	"github.com/millrace-io/millrace/query/live"
)

// lettersEvery is how often letters are looked at. Beyond that an invalid event has
// waited for a batch of its projector, and to look costs little.
const lettersEvery = 100 * time.Millisecond

// newestLetters is how many letters the view dlq shows.
const newestLetters = 10

// LiveLetter is a dead letter in short.
type LiveLetter struct {
	ID      uint64    `json:"id" doc:"Its place in the DLQ stream" example:"7"`
	Origin  string    `json:"origin,omitempty" doc:"The stream that the message came from and its place there" example:"EVENTS/91220"`
	Subject string    `json:"subject,omitempty" doc:"The subject that the message came on" example:"events.cooked.a3"`
	Code    string    `json:"code,omitempty" doc:"The rule that it breaks, for programs" example:"stage_unknown"`
	Field   string    `json:"field,omitempty" doc:"The field that breaks it" example:"stage"`
	Reason  string    `json:"reason,omitempty" doc:"The rule, for people" example:"must be one of crawled, indexed"`
	DeadAt  time.Time `json:"dead_at" doc:"When it became a letter"`
}

// LiveLetters is the state of the view dlq.
type LiveLetters struct {
	Count  uint64       `json:"count" doc:"Dead letters in all"`
	Newest []LiveLetter `json:"newest" doc:"The newest ones, the newest first, without their bodies"`
}

// Letters reads dead letters.
type Letters interface {
	// State returns how many there are, and the place of the last.
	State(ctx context.Context) (count, last uint64, err error)
	// Newest returns the newest, the newest first.
	Newest(ctx context.Context, most int) ([]LiveLetter, error)
}

// DeadLettersOf returns the view of dead letters. They are for those who may
// read them over HTTP.
func DeadLettersOf(letters Letters) live.View {
	d := &deadLetters{letters: letters}
	return live.Polled(live.View{
		Name: "dlq", Summary: "the dead letters: how many, and why the newest are", Scope: auth.Admin,
		Every: lettersEvery,
	}, "the dead letters are not known while NATS is away or slow", d.read)
}

// deadLetters reads letters only where there are others than before.
type deadLetters struct {
	letters Letters

	mu    sync.Mutex
	known bool
	last  uint64
	state LiveLetters
}

func (d *deadLetters) read(ctx context.Context) (LiveLetters, error) {
	count, last, err := d.letters.State(ctx)
	if err != nil {
		return LiveLetters{}, fmt.Errorf("count dead letters: %w", err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.known && d.state.Count == count && d.last == last {
		return d.state, nil
	}
	newest := []LiveLetter{}
	if count > 0 {
		if newest, err = d.letters.Newest(ctx, newestLetters); err != nil {
			return LiveLetters{}, fmt.Errorf("read the newest dead letters: %w", err)
		}
	}
	d.known, d.last, d.state = true, last, LiveLetters{count, newest}
	return d.state, nil
}
