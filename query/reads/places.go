package reads

import "context"

// Places bound how many requests do something at one time: as many as its
// capacity is.
type Places chan struct{}

// Enter takes a place, and returns how to leave it. It waits until one is free,
// or returns ctx's error.
func (p Places) Enter(ctx context.Context) (leave func(), err error) {
	select {
	case p <- struct{}{}:
		return func() { <-p }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
