// Package netguard keeps connections that callers ask for out of networks that are not public. Addresses are checked
// when they are dialed, so that no name can lead elsewhere by then.
package netguard

import (
	"errors"
	"net"
	"net/netip"
	"time"

	"code.dny.dev/ssrf"
)

// Guard tells which addresses may be called: those of public networks, and of networks that are allowed. The zero value
// allows none.
type Guard struct{ *ssrf.Guardian }

// New returns the guard for networks that are allowed besides public ones.
func New(allowed []netip.Prefix) Guard {
	var v4, v6 []netip.Prefix
	for _, p := range allowed {
		if p.Addr().Is4() {
			v4 = append(v4, p)
		} else {
			v6 = append(v6, p)
		}
	}
	return Guard{ssrf.New(ssrf.WithAnyPort(), ssrf.WithAllowedV4Prefixes(v4...), ssrf.WithAllowedV6Prefixes(v6...))}
}

// Dialer dials addresses that the guard lets pass. The resolver may be nil.
func (g Guard) Dialer(timeout time.Duration, resolver *net.Resolver) *net.Dialer {
	return &net.Dialer{Timeout: timeout, Control: g.Safe, Resolver: resolver}
}

// Refused tells of an error of dialing an address that a guard does not let pass.
func Refused(err error) bool {
	return errors.Is(err, ssrf.ErrProhibitedIP) || errors.Is(err, ssrf.ErrProhibitedNetwork)
}
