package batches

import (
	"errors"
	"io"
)

// sent is a body, whose errors are the sender's.
type sent struct {
	from io.Reader
	err  error
}

func (s *sent) Read(p []byte) (int, error) {
	n, err := s.from.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		s.err = err
	}
	return n, err
}
