package main

import (
	"fmt"
	"net/netip"

	ingesthttp "github.com/millrace-io/millrace/ingest/http"
	"github.com/millrace-io/millrace/internal/connlimit"
	"github.com/millrace-io/millrace/query/pipeline"
)

// limitSettings bound what callers of the HTTP server may ask of it.
type limitSettings struct {
	Rate           float64        `help:"Events a second that each token, or each address without one, may send over HTTP; 0: unlimited." env:"MILLRACE_INGEST_RATE" name:"ingest-rate" default:"1000"`
	Burst          int            `help:"Events that a caller may send at once after a pause; larger batches are refused." env:"MILLRACE_INGEST_BURST" name:"ingest-burst" default:"10000"`
	TrustedProxies []netip.Prefix `help:"Networks of proxies that name the caller's address in X-Forwarded-For, such as 10.0.0.0/8." env:"MILLRACE_TRUSTED_PROXIES" name:"trusted-proxies"`
	Gaps           []pipeline.Gap `help:"Least share of the articles at one stage within an hour that should also reach another stage: stage:stage:share." env:"MILLRACE_GAPS" name:"gaps" default:"indexed:classified:0.8"`
	Connections    int            `help:"WebSockets and event streams of live views that may be open at one time." env:"MILLRACE_LIVE_CONNECTIONS" name:"live-connections" default:"10000"`
	Compress       bool           `help:"Compress the messages of WebSockets for clients that offer permessage-deflate." env:"MILLRACE_LIVE_COMPRESSION" name:"live-compression" default:"true" negatable:""`
}

func (s limitSettings) ingest() ingesthttp.Limits {
	rate := s.Rate
	if rate == 0 {
		rate = -1
	}
	return ingesthttp.Limits{Rate: rate, Burst: s.Burst, Proxies: s.TrustedProxies}
}

// connections is how many the HTTP server may have: it leaves files for what is
// stored and for other servers.
func (s limitSettings) connections() int { return connlimit.Share(0.75, s.Connections+10_000) }

// atRisk says that there will not be as many WebSockets as are configured.
func (s limitSettings) atRisk() string {
	if s.Connections <= s.connections() {
		return ""
	}
	return fmt.Sprintf("MILLRACE_LIVE_CONNECTIONS is %d, but of the %d files that this process may have open, HTTP "+
		"connections get %d: allow it more (ulimit -n)",
		s.Connections, connlimit.Files(), s.connections())
}
