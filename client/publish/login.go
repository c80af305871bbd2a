package publish

import (
	"fmt"
	"os"

	"github.com/nats-io/nats.go"
)

// Environment variables of a login on NATS that is not part of the address.
const (
	EnvNATSCreds = "MILLRACE_NATS_CREDS"
	EnvNATSNKey  = "MILLRACE_NATS_NKEY"
	EnvNATSCA    = "MILLRACE_NATS_CA"
	EnvNATSCert  = "MILLRACE_NATS_CERT"
	EnvNATSKey   = "MILLRACE_NATS_KEY"
)

// Login says who is on a connection to NATS, and whom it trusts, where its
// address does not. All are names of files, and may be empty.
type Login struct {
	Creds string // credentials: a JWT and its key
	NKey  string // the seed of an NKey
	CA    string // certificates of authorities to trust, in place of the system's
	Cert  string // the client's certificate
	Key   string // and its key
}

// LoginFromEnv reads MILLRACE_NATS_CREDS, MILLRACE_NATS_NKEY, MILLRACE_NATS_CA,
// MILLRACE_NATS_CERT and MILLRACE_NATS_KEY.
func LoginFromEnv() Login {
	return Login{
		Creds: os.Getenv(EnvNATSCreds), NKey: os.Getenv(EnvNATSNKey),
		CA: os.Getenv(EnvNATSCA), Cert: os.Getenv(EnvNATSCert), Key: os.Getenv(EnvNATSKey),
	}
}

// Options returns the login as options of a connection.
func (l Login) Options() (options []nats.Option, err error) {
	if (l.Cert == "") != (l.Key == "") {
		return nil, fmt.Errorf("log in to NATS: %s and %s go together", EnvNATSCert, EnvNATSKey)
	}
	if l.Creds != "" && l.NKey != "" {
		return nil, fmt.Errorf("log in to NATS: set one of %s and %s", EnvNATSCreds, EnvNATSNKey)
	}
	if l.Creds != "" {
		options = append(options, nats.UserCredentials(l.Creds))
	}
	if l.NKey != "" {
		key, err := nats.NkeyOptionFromSeed(l.NKey)
		if err != nil {
			return nil, fmt.Errorf("log in to NATS: %s=%s: %w", EnvNATSNKey, l.NKey, err)
		}
		options = append(options, key)
	}
	if l.CA != "" {
		options = append(options, nats.RootCAs(l.CA))
	}
	if l.Cert != "" {
		options = append(options, nats.ClientCert(l.Cert, l.Key))
	}
	return options, nil
}
