package publish

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/synadia-io/orbit.go/jetstreamext"
)

// fate is what an attempt's error means for its messages.
type fate uint8

const (
	fateDone    fate = iota // no error
	fateRetry               // not stored; may be later
	fateUnknown             // perhaps stored
	fateFailed              // not stored, and will not be
)

// Codes of the server's answers that neither nats.go nor its extensions name.
const (
	codeAccountFull     jetstream.ErrorCode = 10002 // what the account may store is used up
	codeStoreFailed     jetstream.ErrorCode = 10077 // "maximum bytes exceeded" among others
	codeHeaderTooLarge  jetstream.ErrorCode = 10097
	codeStreamSealed    jetstream.ErrorCode = 10109
	codeNoLimits        jetstream.ErrorCode = 10120 // the account may store nothing
	codeAccountTooSmall jetstream.ErrorCode = 10122 // for the stream's limit
	codeBatchCommit     jetstream.ErrorCode = 10200
)

func code(err error) jetstream.ErrorCode {
	var api *jetstream.APIError
	if errors.As(err, &api) {
		return api.ErrorCode
	}
	return 0
}

func fateOf(err error) fate {
	var api *jetstream.APIError
	switch {
	case err == nil:
		return fateDone
	case errors.Is(err, ErrRefused), errors.Is(err, ErrStreamFull), errors.Is(err, ErrTooLarge),
		errors.Is(err, nats.ErrConnectionClosed):
		return fateFailed
	case errors.As(err, &api), errors.Is(err, nats.ErrNoResponders), errors.Is(err, jetstream.ErrNoStreamResponse),
		errors.Is(err, nats.ErrReconnectBufExceeded), errors.Is(err, jetstream.ErrTooManyStalledMsgs):
		return fateRetry
	}
	return fateUnknown
}

// classify marks the errors that no retry mends.
func classify(err error) error {
	var api *jetstream.APIError
	switch {
	case errors.Is(err, nats.ErrBadSubject):
		return fmt.Errorf("%w: %w", ErrRefused, err)
	case errors.Is(err, nats.ErrMaxPayload):
		return fmt.Errorf("%w: %w", ErrTooLarge, err)
	case errors.Is(err, nats.ErrNoResponders), errors.Is(err, jetstream.ErrNoStreamResponse):
		return fmt.Errorf("no stream takes the subject yet: %w", err)
	case errors.As(err, &api):
		return classifyAPI(api, err)
	}
	return err
}

// classifyAPI takes an answer that it does not know for one that passes: events
// that wait in vain are noticed, and those that were given up are gone.
func classifyAPI(api *jetstream.APIError, err error) error {
	switch api.ErrorCode {
	case codeStoreFailed:
		if strings.Contains(api.Description, "maximum") {
			return fmt.Errorf("%w: %w", ErrStreamFull, err)
		}
	case codeAccountFull, codeStreamSealed, codeNoLimits, codeAccountTooSmall:
		return fmt.Errorf("%w: %w", ErrStreamFull, err)
	case jetstream.JSErrCodeStreamMessageExceedsMaximum, codeHeaderTooLarge:
		return fmt.Errorf("%w: %w", ErrTooLarge, err)
	case jetstreamext.JSErrCodeBatchPublishNotEnabled, jetstreamext.JSErrCodeBatchPublishMissingSeq,
		jetstreamext.JSErrCodeBatchPublishUnsupportedHeader, jetstreamext.JSErrCodeBatchPublishInvalidID,
		jetstreamext.JSErrCodeBatchPublishExceedsLimit, codeBatchCommit:
		return fmt.Errorf("%w: %w", ErrRefused, err) // as a batch
	}
	return err
}

// unknown is the error of messages whose fate ctx left open.
func unknown(ctx context.Context) error { return fmt.Errorf("%w: %w", ErrUnknown, context.Cause(ctx)) }
