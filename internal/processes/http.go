package processes

import (
	"context"

	"github.com/millrace-io/millrace/internal/auth"
	"github.com/millrace-io/millrace/internal/endpoint"
	"github.com/millrace-io/millrace/internal/httpapi"
)

// Answer is all processes.
type Answer struct {
	Processes []Process `json:"processes" nullable:"false"`
}

// Register adds the operation.
func (p *Processes) Register(api endpoint.API) {
	read := endpoint.For(auth.Read)
	type request struct{ httpapi.Params }
	endpoint.Get(api.At("", "service"), read("list-processes", "/processes", "All processes of the installation",
		"Each process is asked over NATS. One that does not answer within five seconds is listed with what is known of it,",
		"for an hour."),
		func(ctx context.Context, _ *request) (Answer, error) {
			all, err := p.All(ctx)
			return Answer{all}, err
		})
}
