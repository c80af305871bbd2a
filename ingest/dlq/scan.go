package dlq

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/synadia-io/orbit.go/jetstreamext"

	"github.com/millrace-io/millrace/schemas/stream"
)

// A request for letters ends with either of these.
const (
	readLetters = 256
	readBytes   = 4 << 20
)

// scan hands over letters of the subject from one sequence to another, both
// included and in their order, in slices that are valid during the call of
// each. It ends early when each returns false.
func (s *Service) scan(ctx context.Context, subject string, from, to uint64, each func([]found) (bool, error)) error {
	for from <= to {
		letters, err := s.read(ctx, subject, from)
		if err != nil {
			return err
		}
		if len(letters) == 0 {
			return nil
		}
		from = letters[len(letters)-1].ID + 1
		for len(letters) > 0 && letters[len(letters)-1].ID > to {
			letters = letters[:len(letters)-1]
		}
		if len(letters) == 0 {
			return nil
		}
		if more, err := each(letters); err != nil || !more {
			return err
		}
	}
	return nil
}

// read returns the next letters from a sequence on; none at the stream's end.
// They are all taken off the connection before anyone works on them, so that
// slow work can't make the connection drop some.
func (s *Service) read(ctx context.Context, subject string, from uint64) ([]found, error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	answers, err := jetstreamext.GetBatch(ctx, s.js, stream.DLQ, readLetters,
		jetstreamext.GetBatchSeq(from), jetstreamext.GetBatchSubject(subject), jetstreamext.GetBatchMaxBytes(readBytes))
	if err != nil {
		return nil, fmt.Errorf("read dead letters from %d: %w", from, err)
	}
	var letters []found
	for m, err := range answers {
		if errors.Is(err, jetstreamext.ErrNoMessages) {
			return nil, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read dead letters from %d: %w", from, err)
		}
		letters = append(letters, newFound(m))
	}
	// When the time is up, the answers merely end.
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("read dead letters from %d: %w", from, err)
	}
	return letters, nil
}

// find reads one letter.
func (s *Service) find(ctx context.Context, st jetstream.Stream, id string) (found, error) {
	k, err := parseID(id)
	if err != nil {
		return found{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	var m *jetstream.RawStreamMsg
	if k.stream == "" {
		m, err = stream.Get(ctx, s.js, st, k.seq)
	} else {
		m, err = st.GetLastMsgForSubject(ctx, stream.DeadLetterSubject(k.stream, k.seq))
	}
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return found{}, fmt.Errorf("%w: %s", ErrNotFound, id)
	}
	if err != nil {
		return found{}, fmt.Errorf("read dead letter %s: %w", id, err)
	}
	return newFound(m), nil
}
