package httpapi

import (
	"context"
	"net/http"
	"net/netip"
	"strings"
)

// Proxies are networks of proxies that are trusted to name the caller's address in
// X-Forwarded-For.
type Proxies []netip.Prefix

// Client returns the address that a request comes from. Of an IPv6 address it returns the
// network: a site has 2^64 of them.
func (p Proxies) Client(r *http.Request) netip.Addr {
	addr, ok := address(r.RemoteAddr)
	if ok && p.contain(addr) {
		addr = p.forwarded(r, addr)
	}
	if addr.Is6() {
		prefix, _ := addr.Prefix(64) // an address of 128 bits has one
		addr = prefix.Addr()
	}
	return addr
}

// forwarded returns the last address in X-Forwarded-For that no trusted proxy
// has: what stands before it is the caller's own claim.
func (p Proxies) forwarded(r *http.Request, proxy netip.Addr) netip.Addr {
	hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for i := len(hops) - 1; i >= 0; i-- {
		addr, ok := address(strings.TrimSpace(hops[i]))
		if !ok {
			return proxy
		}
		if !p.contain(addr) {
			return addr
		}
		proxy = addr
	}
	return proxy
}

func (p Proxies) contain(addr netip.Addr) bool {
	for _, network := range p {
		if network.Contains(addr) {
			return true
		}
	}
	return false
}

// address reads an address that may have a port.
func address(text string) (netip.Addr, bool) {
	if ap, err := netip.ParseAddrPort(text); err == nil {
		return ap.Addr().Unmap().WithZone(""), true
	}
	addr, err := netip.ParseAddr(text)
	return addr.Unmap().WithZone(""), err == nil
}

type clientKey struct{}

// noteClient has the context of a request know the address that it comes from.
func (s *Server) noteClient(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), clientKey{}, s.cfg.Proxies.Client(r))))
	})
}

// ClientFrom returns the address that the request of a context comes from.
func ClientFrom(ctx context.Context) netip.Addr {
	addr, _ := ctx.Value(clientKey{}).(netip.Addr)
	return addr
}
