package objects

import (
	"context"
	"time"

	"github.com/millrace-io/millrace/schemas/object"
)

// Stream opens an object of any size. Reading ends where the storage sends nothing for Stall.
func Stream(ctx context.Context, s Storage, o object.Name) (Object, error) {
	w := &streamed{}
	ctx, w.cancel = context.WithCancel(ctx)
	w.timer = time.AfterFunc(Stall, w.cancel)
	object, err := s.Open(ctx, o)
	w.timer.Stop()
	if err != nil {
		w.cancel()
		return nil, err
	}
	w.Object = object
	return w, nil
}

// streamed ends a read of a storage that sends nothing, as while NATS is away.
type streamed struct {
	Object
	cancel context.CancelFunc
	timer  *time.Timer
}

// Read implements io.Reader.
func (w *streamed) Read(p []byte) (int, error) {
	w.timer.Reset(Stall)
	defer w.timer.Stop()
	return w.Object.Read(p)
}

// Close implements io.Closer.
func (w *streamed) Close() error {
	w.timer.Stop()
	w.cancel()
	return w.Object.Close()
}
