package main

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/millrace-io/millrace/cmd/millrace/internal/console"
)

// place is where something of an installation is.
type place struct{ what, where string }

// announce says that everything runs: with a banner where somebody reads the
// log as text on a terminal, and else with a line of the log.
func (c *upCmd) announce(p *program, e servers, took time.Duration) {
	if console.IsTerminal(p.errOut) && p.logging.Format != "json" {
		fmt.Fprint(p.errOut, c.banner(e, took))
		return
	}
	p.log.Info("millrace is up", "page", c.page(), "nats", dialable(c.Engines.NATSListen),
		"clickhouse", dialable(c.Engines.ClickHouse.Listen), "clickhouse_http", dialable(c.Engines.ClickHouse.HTTP),
		"data", c.Data, "took", took)
}

func (c *upCmd) page() string { return "http://" + dialable(c.HTTP.Addr) + "/" }

// places are where people find what runs, the page first. Passwords are not
// shown.
func (c *upCmd) places(e servers) []place {
	all := []place{{"page", c.page()}}
	if c.Shared.NATS != "" {
		all = append(all, place{"NATS", shownAddress(c.Shared.NATS)})
	} else {
		all = append(all, place{"NATS", "nats://" + dialable(c.Engines.NATSListen)})
	}
	if c.Shared.ClickHouse != "" {
		all = append(all, place{"ClickHouse", strings.Join(e.clickhouse.Addr, ", ")})
	} else {
		http, native := dialable(c.Engines.ClickHouse.HTTP), dialable(c.Engines.ClickHouse.Listen)
		all = append(all, place{"ClickHouse", "http://" + http + "/?user=analyst, native " + native})
	}
	if cfg, err := pgconn.ParseConfig(e.postgres()); err == nil {
		all = append(all, place{"Postgres", fmt.Sprintf("%s:%d, database %s", cfg.Host, cfg.Port, cfg.Database)})
	}
	return append(all, place{"data", c.Data})
}

func (c *upCmd) banner(e servers, took time.Duration) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n  Millrace is up, after %s.\n\n", took.Round(100*time.Millisecond))
	for _, at := range c.places(e) {
		fmt.Fprintf(&b, "    %-10s  %s\n", at.what, at.where)
	}
	b.WriteString("\n")
	if !c.NoDemo {
		b.WriteString("  What you see is a demonstration; --no-demo starts without it.\n")
	}
	url := ""
	if addr := dialable(c.HTTP.Addr); addr != "127.0.0.1:8075" {
		url = " --url=" + addr
	}
	fmt.Fprintf(&b, "  In another terminal: %[1]s status%[2]s, or %[1]s top%[2]s\n", os.Args[0], url)
	b.WriteString("  Ctrl-C stops everything.\n\n")
	return b.String()
}
