package work

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/millrace-io/millrace/schemas/stream"
)

// mover sends moves to the server and gives each move its verdict. A request
// holds all moves that have come while the request before was under way.
type mover struct {
	nc     *nats.Conn
	worker string
	stage  string
	lease  func() time.Duration
	log    *slog.Logger
	in     chan *move
	done   sync.WaitGroup
}

// move is one move on its way to its verdict.
type move struct {
	stream.WorkMove
	// then is called with the verdict; known is false when none has come in
	// time. It must not block.
	then func(v stream.WorkVerdict, known bool)
}

// requestsAtOnce is how many requests of a mover are under way. A second one
// fills while the first waits for the disk.
const requestsAtOnce = 2

func newMover(w *worker, buffer int) *mover {
	return &mover{
		nc: w.nc, worker: w.cfg.Worker, stage: w.stage, lease: w.lease, log: w.log,
		in: make(chan *move, buffer),
	}
}

// start begins to send moves, until stop. A request is sent again until the lease
// is over: after that another worker may have the items.
func (m *mover) start() {
	for range requestsAtOnce {
		m.done.Go(func() {
			batch := make([]*move, 0, stream.MaxWorkMoves)
			for first := range m.in {
				batch = m.gather(append(batch[:0], first))
				m.tell(batch)
			}
		})
	}
}

// stop returns when every move has its verdict. No move may be added any more.
func (m *mover) stop() {
	close(m.in)
	m.done.Wait()
}

// gather adds the moves that wait already.
func (m *mover) gather(batch []*move) []*move {
	for len(batch) < cap(batch) {
		select {
		case next, ok := <-m.in:
			if !ok {
				return batch
			}
			batch = append(batch, next)
		default:
			return batch
		}
	}
	return batch
}

func (m *mover) tell(batch []*move) {
	ctx, cancel := context.WithTimeout(context.Background(), m.lease())
	defer cancel()
	verdicts, err := m.verdicts(ctx, batch)
	if err != nil {
		m.log.Warn("moves not told", "stage", m.stage, "moves", len(batch), "error", err)
	}
	for i, mv := range batch {
		if err != nil {
			mv.then(stream.WorkVerdict{}, false)
			continue
		}
		mv.then(verdicts[i], true)
	}
}

// errRefused means that the server will never accept the request.
var errRefused = errors.New("server refused the moves")

func (m *mover) verdicts(ctx context.Context, batch []*move) (verdicts []stream.WorkVerdict, err error) {
	request := stream.WorkMoveBatch{
		Worker: m.worker, Stage: m.stage, Lease: m.lease(),
		Moves: make([]stream.WorkMove, len(batch)),
	}
	for i, mv := range batch {
		request.Moves[i] = mv.WorkMove
	}
	err = askAgain.Do(ctx, func() error {
		answer, err := ask(ctx, m.nc, request)
		if err == nil && len(answer.Verdicts) != len(batch) {
			err = fmt.Errorf("tell moves: %d verdicts on %d moves", len(answer.Verdicts), len(batch))
		}
		verdicts = answer.Verdicts
		return unlessFinal(err)
	}, func(err error, wait time.Duration) {
		m.log.Debug("telling moves again", "stage", m.stage, "moves", len(batch), "wait", wait, "error", err)
	})
	return verdicts, err
}

// answerWait is how long to wait for an answer before the moves are sent again. A
// move that was made is not made twice.
const answerWait = 5 * time.Second

// exchange makes a request and reads its answer. It does not outlive the connection.
func exchange(ctx context.Context, nc *nats.Conn, subject string, request []byte, answer any) error {
	ctx, cancel := context.WithTimeout(ctx, answerWait)
	defer cancel()
	ctx, end := whileConnected(ctx, nc)
	defer end()
	msg, err := nc.RequestWithContext(ctx, subject, request)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(msg.Data, answer); err != nil {
		return fmt.Errorf("answer: %w", err)
	}
	return nil
}

func ask(ctx context.Context, nc *nats.Conn, request stream.WorkMoveBatch) (answer stream.WorkVerdicts, err error) {
	data, err := json.Marshal(request)
	if err != nil {
		return answer, fmt.Errorf("encode moves: %w", err)
	}
	if err := exchange(ctx, nc, stream.WorkMoves, data, &answer); err != nil {
		return answer, fmt.Errorf("tell moves: %w", err)
	}
	switch {
	case answer.Refused:
		return answer, fmt.Errorf("%w: %s", errRefused, answer.Error)
	case answer.Error != "":
		return answer, fmt.Errorf("tell moves: %s", answer.Error)
	}
	return answer, nil
}

// whileConnected returns a context that ends when the connection is lost: no
// answer to an earlier request comes after that.
func whileConnected(ctx context.Context, nc *nats.Conn) (_ context.Context, end func()) {
	ctx, lose := context.WithCancelCause(ctx)
	lost := nc.StatusChanged(nats.RECONNECTING, nats.CLOSED)
	go func() {
		<-lost // or closed by end
		lose(nats.ErrDisconnected)
	}()
	return ctx, func() { nc.RemoveStatusListener(lost) }
}
