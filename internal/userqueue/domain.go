package userqueue

import (
	"context"
	"fmt"
	"time"

	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/schemas/item"
	"github.com/millrace-io/millrace/schemas/stream"
)

// domainWait notes the error of a report about a domain, and returns how long the item waits at least. Errors that say
// nothing about the domain have no effect. An error that is reported twice counts twice: a domain is given more time
// then, and no row is affected.
func (s *Store) domainWait(ctx context.Context, q queue.ID, r stream.Report) (time.Duration, error) {
	class, after := item.ClassOf(r.Class), 0.0
	if r.RetryAfterS != nil {
		after = *r.RetryAfterS
	} else if class != item.ClassThrottled && class != item.ClassServer {
		return 0, nil
	}
	var wait float64
	err := s.queues.Pool().QueryRow(ctx, text("domain"), q, r.Domain, after, s.pacing.Delay.Milliseconds(),
		s.pacing.MostDelay.Milliseconds(), s.pacing.Quiet.Seconds()).Scan(&wait)
	if err != nil {
		return 0, fmt.Errorf("note an error of the domain %s: %w", r.Domain, err)
	}
	return item.Seconds(wait), nil
}

// domainsKept is for how many seconds a domain is known after it may be asked again.
const domainsKept = 3600

// forgetDomains forgets the domains of a queue that may long have been asked again.
func (s *Store) forgetDomains(ctx context.Context, q queue.ID) error {
	_, err := s.queues.Pool().Exec(ctx,
		"DELETE FROM millrace.error_domain WHERE stage = $1 AND next_at < now() - $2 * interval '1 second'", q, domainsKept)
	if err != nil {
		return fmt.Errorf("forget domains with errors: %w", err)
	}
	return nil
}
