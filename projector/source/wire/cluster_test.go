package wire

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"math/big"
	"net"
	"net/url"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// TestOtherServer: what a connection goes on with in a TLS cluster can be read
// from too, though that server is known by its address alone and its certificate
// by the cluster's name.
func TestOtherServer(t *testing.T) {
	certificate, roots := certify(t, "localhost")
	member := func(routes ...*url.URL) *server.Server {
		return start(t, &server.Options{
			TLSConfig: &tls.Config{Certificates: []tls.Certificate{certificate}}, TLS: true, TLSTimeout: 5,
			Cluster: server.ClusterOpts{Name: "test", Host: "127.0.0.1", Port: server.RANDOM_PORT}, Routes: routes,
		})
	}
	first := member()
	member(&url.URL{Scheme: "nats", Host: first.ClusterAddr().String()})
	known, moved := make(chan struct{}, 10), make(chan struct{}, 10)
	nc, err := nats.Connect(fmt.Sprintf("tls://localhost:%d", first.Addr().(*net.TCPAddr).Port),
		nats.Secure(&tls.Config{RootCAs: roots}), nats.ReconnectWait(10*time.Millisecond), nats.MaxReconnects(-1),
		nats.DiscoveredServersHandler(func(*nats.Conn) { known <- struct{}{} }),
		nats.ReconnectHandler(func(*nats.Conn) { moved <- struct{}{} }))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	await := func(what string, happened chan struct{}) {
		t.Helper()
		select {
		case <-happened:
		case <-time.After(20 * time.Second):
			t.Fatal("waiting for ", what)
		}
	}
	if len(nc.DiscoveredServers()) == 0 {
		await("the other server's address", known)
	}
	first.Shutdown()
	await("a connection to the other server", moved)
	c, err := Dial(t.Context(), nc, "a")
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

// certify makes a certificate for a name, which is its own authority.
func certify(t *testing.T, name string) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	form := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{name}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, form, form, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(leaf)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, roots
}
