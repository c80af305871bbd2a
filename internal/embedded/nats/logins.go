package nats

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
	"golang.org/x/crypto/bcrypt"

	"github.com/millrace-io/millrace/schemas/stream"
)

// KeyFile is where the generated key of a role is, as the seed of an NKey, in
// the folder of the streams.
func KeyFile(storeDir, role string) string { return filepath.Join(storeDir, "keys", role+".nk") }

// Login returns how a role logs in.
func (s *Server) Login(role string) (nats.Option, error) {
	if role == stream.RoleMillrace && s.config.User != "" {
		return nats.UserInfo(s.config.User, s.config.Password), nil
	}
	option, err := nats.NkeyOptionFromSeed(KeyFile(s.config.StoreDir, role))
	if err != nil {
		return nil, fmt.Errorf("embedded NATS: log in as %s: %w", role, err)
	}
	return option, nil
}

// addLogins puts the roles into the server's options.
func (c Config) addLogins(opts *server.Options) error {
	logins, err := c.logins()
	if err != nil {
		return fmt.Errorf("embedded NATS: %w", err)
	}
	if err := opts.ProcessConfigString(stream.AccountsConfig(logins, opts.MaxConn)); err != nil {
		return fmt.Errorf("embedded NATS: its logins: %w", err)
	}
	for _, n := range opts.Nkeys {
		if n.Account.Name == stream.Account(stream.RoleLocal) {
			opts.NoAuthUser = n.Nkey
		}
	}
	for _, u := range opts.Users {
		if u.Account.Name == stream.Account(stream.RoleMillrace) {
			u.Username, u.Password = c.User, c.Password
		}
		if u.Password, err = hashed(u.Password); err != nil {
			return fmt.Errorf("embedded NATS: login %s: %w", u.Username, err)
		}
	}
	return nil
}

// hashed returns the form of a password that the server compares logins with. It
// exists in memory alone, where the password is too, so that it need not be slow
// to compute. Bcrypt reads no more than 72 bytes of a password.
func hashed(password string) (string, error) {
	const most = 72
	hash, err := bcrypt.GenerateFromPassword([]byte(password)[:min(len(password), most)], bcrypt.MinCost)
	if err != nil {
		return "", fmt.Errorf("hash its password: %w", err)
	}
	return string(hash), nil
}

// logins returns those of each role. Keys are generated when they are missing.
func (c Config) logins() (map[string][]string, error) {
	if err := os.MkdirAll(filepath.Join(c.StoreDir, "keys"), 0o700); err != nil {
		return nil, fmt.Errorf("make the folder of its streams: %w", err)
	}
	roles := []string{
		stream.RoleProducer, stream.RoleSources, stream.RoleWorker, stream.RoleReader, stream.RoleOperator, stream.RoleAnalyser,
	}
	logins := map[string][]string{}
	if c.User == "" {
		roles = append(roles, stream.RoleMillrace)
		local, err := unusedKey()
		if err != nil {
			return nil, fmt.Errorf("key of the role %s: %w", stream.RoleLocal, err)
		}
		logins[stream.RoleLocal] = []string{"{nkey: " + local + "}"}
	} else {
		logins[stream.RoleMillrace] = []string{"{user: millrace}"} // in whose place comes what may hold any character
		if err := os.Remove(KeyFile(c.StoreDir, stream.RoleMillrace)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, err // whoever finds it would try it
		}
	}
	for _, role := range roles {
		if password := c.Passwords[role]; password != "" {
			logins[role] = []string{fmt.Sprintf("{user: %q, password: %q}", role, password)}
			continue
		}
		key, err := publicKey(KeyFile(c.StoreDir, role))
		if err != nil {
			return nil, fmt.Errorf("key of the role %s: %w", role, err)
		}
		logins[role] = []string{"{nkey: " + key + "}"}
	}
	return logins, nil
}

// unusedKey returns the public part of a key whose private part nobody has. It
// names the login that clients without one get.
func unusedKey() (string, error) {
	key, err := nkeys.CreateUser()
	if err != nil {
		return "", err
	}
	defer key.Wipe()
	return key.PublicKey()
}

// publicKey returns the public part of a key, which it makes if there is none.
func publicKey(file string) (string, error) {
	seed, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return makeKey(file)
	}
	if err != nil {
		return "", err
	}
	key, err := nkeys.ParseDecoratedNKey(seed)
	if err != nil {
		return "", fmt.Errorf("%s holds none (remove it, and another one is made): %w", file, err)
	}
	return key.PublicKey()
}

// makeKey writes the file in one step, so that it is whole or not there.
func makeKey(file string) (string, error) {
	key, err := nkeys.CreateUser()
	if err != nil {
		return "", err
	}
	seed, err := key.Seed()
	if err != nil {
		return "", err
	}
	if err := writeSynced(file+".new", seed); err != nil {
		return "", err
	}
	if err := os.Rename(file+".new", file); err != nil {
		return "", err
	}
	return key.PublicKey()
}

// writeSynced writes a file that is not half there after a power cut.
func writeSynced(file string, text []byte) error {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Sync(), f.Close())
}

// moveStreams takes the streams of a folder that was used before there were
// roles into Millrace's account.
func moveStreams(storeDir string) error {
	before := filepath.Join(storeDir, server.JetStreamStoreDir, server.DEFAULT_GLOBAL_ACCOUNT)
	now := filepath.Join(storeDir, server.JetStreamStoreDir, stream.Account(stream.RoleMillrace))
	if _, err := os.Stat(now); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := os.Rename(before, now); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("embedded NATS: move the streams into their account: %w", err)
	}
	return nil
}
