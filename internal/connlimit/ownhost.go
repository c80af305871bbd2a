package connlimit

import (
	"net"
	"slices"
	"strings"
)

// OwnHost tells whether a Host header, with a port or without, is empty, an address,
// localhost or a name under it, or one of those that are allowed.
//
// A stranger can have a name of theirs point to any address, loopback too, and a browser
// then takes what listens there for their site (DNS rebinding). Nobody can have an address
// or localhost point elsewhere. So a page of a stranger cannot have sent a request whose
// host OwnHost accepts.
func OwnHost(hostport string, allowed ...string) bool {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = strings.Trim(hostport, "[]")
	}
	host = strings.ToLower(host)
	return host == "" || host == "localhost" || strings.HasSuffix(host, ".localhost") || net.ParseIP(host) != nil ||
		slices.ContainsFunc(allowed, func(a string) bool { return strings.EqualFold(a, host) })
}
