package tenanttest

import (
	"context"
	"encoding/json"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/internal/auth"
	"github.com/millrace-io/millrace/internal/endpoint"
)

// Commands take reviews over HTTP.
type Commands struct{ JetStream jetstream.JetStream }

// AddedReview is the answer.
type AddedReview struct {
	Seq uint64 `json:"seq" doc:"Its sequence on the stream"`
}

// Register adds the route.
func (c Commands) Register(api endpoint.API) {
	endpoint.Post(api.At("/reviews", "Reviews"), endpoint.For(auth.Work)("add-review", "", "Add a review"), c.add)
}

func (c Commands) add(ctx context.Context, in *endpoint.Body[Review]) (AddedReview, error) {
	data, err := json.Marshal(in.Body)
	if err != nil {
		return AddedReview{}, err
	}
	ack, err := c.JetStream.Publish(ctx, Subject, data)
	if err != nil {
		return AddedReview{}, err
	}
	return AddedReview{ack.Sequence}, nil
}
