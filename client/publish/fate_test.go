package publish

import (
	"errors"
	"fmt"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
)

// TestAnswers: only what is about the message itself makes it fail for good.
func TestAnswers(t *testing.T) {
	for _, c := range []struct {
		code, number int
		text         string
		want         error // nil: it is worth another attempt
	}{
		{400, 10002, "resource limits exceeded for account", ErrStreamFull},
		{400, 10120, "no JetStream default or applicable tiered limit present", ErrStreamFull},
		{400, 10122, "stream max bytes exceeds account limit max stream bytes", ErrStreamFull},
		{400, 10109, "invalid operation on sealed stream", ErrStreamFull},
		{503, 10077, "maximum bytes exceeded", ErrStreamFull},
		{503, 10077, "no space left on device", nil},
		{400, 10054, "message size exceeds maximum allowed", ErrTooLarge},
		{400, 10097, "header size exceeds maximum allowed of 64k", ErrTooLarge},
		{400, 10174, "atomic publish is disabled", ErrRefused},
		{400, 10199, "atomic publish batch is too large: 100", ErrRefused},
		{400, 10201, "atomic publish batch contains duplicate message id", nil},
		{409, 10158, "duplicate message id is in process", nil},
		{500, 10009, "JetStream cluster can not handle request", nil},
		{400, 19999, "an error that is yet to be invented", nil},
	} {
		answer := &jetstream.APIError{Code: c.code, ErrorCode: jetstream.ErrorCode(c.number), Description: c.text}
		err := classify(fmt.Errorf("publish: %w", answer))
		for _, kind := range []error{ErrStreamFull, ErrTooLarge, ErrRefused} {
			if errors.Is(err, kind) != (c.want == kind) {
				t.Errorf("%d: %v", c.number, err)
			}
		}
		if fate := fateOf(err); (fate == fateFailed) != (c.want != nil) || fate == fateUnknown {
			t.Errorf("%d: its fate is %d", c.number, fate)
		}
	}
}
