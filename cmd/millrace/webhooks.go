package main

import (
	"net/netip"

	"github.com/millrace-io/millrace/ingest/webhooks"
	"github.com/millrace-io/millrace/internal/endpoint"
	"github.com/millrace-io/millrace/internal/webhook"
)

// webhookSettings say where webhooks may lead.
type webhookSettings struct {
	Allow []netip.Prefix `help:"Networks that webhooks may lead to although they are not public, such as 10.1.0.0/16." env:"MILLRACE_WEBHOOK_ALLOW" name:"webhook-allow"`
}

// sendItems sends items of queues to their webhooks.
func (n *node) sendItems() (of share, err error) {
	guard := webhook.NewGuard(n.webhooks.Allow)
	store, err := webhook.NewStore(n.database.pool)
	if err != nil {
		return of, err
	}
	commands, err := webhooks.New(guard, store, n.stores.own)
	if err != nil {
		return of, err
	}
	runner, err := webhooks.NewRunner(webhooks.RunnerConfig{}, webhooks.Deps{
		Sender: webhook.NewSender(guard, nil), Store: store, Own: n.stores.own, Hands: n.stores.handout,
		Registry: n.registry, Log: n.log,
	})
	if err != nil {
		return of, err
	}
	return share{parts: []part{{"sender", runner.Run}}, routes: []func(endpoint.API){commands.Register}}, nil
}
