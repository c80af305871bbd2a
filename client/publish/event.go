package publish

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/millrace-io/millrace/schemas/event"
)

// Emit publishes one event and returns when it is stored, or was before.
func (p *Publisher) Emit(ctx context.Context, e event.Event) error {
	_, err := p.EmitBatch(ctx, []event.Event{e})
	return err
}

// EmitBatch publishes events and returns what became of each, in their order.
// An event that breaks a rule fails with its *event.Invalid and does not keep
// the others back. The error is that of the first event that failed. An event
// without a time gets the present one, one without a service name that of the
// configuration.
func (p *Publisher) EmitBatch(ctx context.Context, events []event.Event) ([]Outcome, error) {
	outcomes := make([]Outcome, len(events))
	msgs := make([]Message, 0, len(events))
	place := make([]int, 0, len(events)) // of each message among the events
	var record event.Record
	for i, e := range events {
		m, err := p.encode(e, &record)
		if err != nil {
			outcomes[i].Err = err
			continue
		}
		msgs, place = append(msgs, m), append(place, i)
	}
	sent, _ := p.PublishRaw(ctx, msgs)
	for k, i := range place {
		outcomes[i] = sent[k]
	}
	for i, o := range outcomes {
		if o.Status == Failed {
			return outcomes, fmt.Errorf("emit event %d of %d: %w", i+1, len(events), o.Err)
		}
	}
	return outcomes, nil
}

func (p *Publisher) encode(e event.Event, r *event.Record) (Message, error) {
	data, err := Encode(e, p.cfg.Service, r)
	if err != nil {
		return Message{}, err
	}
	return EventMessage(r, data), nil
}

// Encode returns the text of an event, which r then is of. Metadata that is
// misspelt is refused, as over HTTP.
func Encode(e event.Event, service string, r *event.Record) ([]byte, error) {
	if e.OccurredAt.IsZero() {
		e.OccurredAt = time.Now()
	}
	if e.ServiceName == "" {
		e.ServiceName = service
	}
	data, err := json.Marshal(e)
	if err != nil {
		return nil, fmt.Errorf("marshal the event: %w", err)
	}
	if invalid := event.Decode(data, r); invalid != nil {
		return nil, invalid
	}
	if misspelt := r.Misspelt(); len(misspelt) > 0 {
		return nil, misspelt[0]
	}
	// A stage is a part of the subject. Which stages there are, the server
	// knows; that it is a name at all is checked here.
	if s, err := event.ParseStages(e.Stage); err != nil || len(s.Names()) != 1 || s.Names()[0] != e.Stage {
		return nil, &event.Invalid{
			Field: "stage", Code: "stage_unknown",
			Rule: "must be a name of lower-case letters, digits, '_' or '-'",
		}
	}
	return data, nil
}
