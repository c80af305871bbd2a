package main

import (
	"net/netip"
	"time"

	"github.com/millrace-io/millrace/ingest/webhooks"
	"github.com/millrace-io/millrace/internal/endpoint"
	"github.com/millrace-io/millrace/schemas/item"
)

// webhookSettings say where webhooks may lead, and how many requests there are.
type webhookSettings struct {
	Allow   []netip.Prefix `help:"Networks that webhooks may lead to although they are not public, such as 10.1.0.0/16." env:"MILLRACE_WEBHOOK_ALLOW" name:"webhook-allow"`
	AtOnce  int            `help:"Requests that a server sends at a time to all webhooks together." env:"MILLRACE_WEBHOOK_CONCURRENCY" name:"webhook-concurrency" default:"256"`
	PerHost int            `help:"Requests that a server sends at a time to one host, at most. It begins with one, and follows what the host answers." env:"MILLRACE_WEBHOOK_HOST_CONCURRENCY" name:"webhook-host-concurrency" default:"64"`
}

// pacingSettings say how long requests wait after errors of the side that they go to.
type pacingSettings struct {
	Throttled time.Duration `help:"First wait of an item after an error of the class throttled, such as 429. Each further one is twice as long, up to 60 times." env:"MILLRACE_RETRY_THROTTLED" name:"retry-throttled" default:"10s"`
	Server    time.Duration `help:"The same after one of the class server, such as 503." env:"MILLRACE_RETRY_SERVER" name:"retry-server" default:"5s"`
	Network   time.Duration `help:"The same after any other one." env:"MILLRACE_RETRY_NETWORK" name:"retry-network" default:"2s"`
	Delay     time.Duration `help:"First delay between two requests to a domain, or to a webhook's host, that goes on answering 429 and 5xx. It doubles while these go on." env:"MILLRACE_DOMAIN_DELAY" name:"domain-delay" default:"200ms"`
	MostDelay time.Duration `help:"Longest one." env:"MILLRACE_DOMAIN_DELAY_MAX" name:"domain-delay-max" default:"10s"`
	Quiet     time.Duration `help:"Time without such errors after which the delay of a domain begins anew." env:"MILLRACE_DOMAIN_QUIET" name:"domain-quiet" default:"1m"`
}

func (s pacingSettings) pacing() item.Pacing {
	return item.Pacing{
		Throttled: s.Throttled, Server: s.Server, Network: s.Network, Delay: s.Delay, MostDelay: s.MostDelay, Quiet: s.Quiet,
	}
}

// sendItems sends items of queues to their webhooks.
func (n *node) sendItems() (of share, err error) {
	guard := webhooks.NewGuard(n.Webhooks.Allow)
	store, err := webhooks.NewStore(n.database.pool)
	if err != nil {
		return of, err
	}
	commands, err := webhooks.New(guard, store, n.stores.own)
	if err != nil {
		return of, err
	}
	runner, err := webhooks.NewRunner(webhooks.RunnerConfig{AtOnce: n.Webhooks.AtOnce, PerHost: n.Webhooks.PerHost}, webhooks.Deps{
		Sender: webhooks.NewSender(guard, nil), Store: store, Own: n.stores.own, Hands: n.stores.handout,
		Registry: n.registry, Log: n.log,
	})
	if err != nil {
		return of, err
	}
	return share{parts: []part{{"sender", runner.Run}}, routes: []func(endpoint.API){commands.Register}}, nil
}
