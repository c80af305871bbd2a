package native

import "fmt"

// Setting is a query setting as a client sends it.
type Setting struct{ Name, Value string }

// customSetting is the flag of a setting whose value is quoted: one that has no
// meaning to the engine, or a parameter.
const customSetting = 2

// Query is a client's query packet.
type Query struct {
	ID         string
	Client     string // what the client calls itself
	Settings   []Setting
	Compressed bool // blocks travel compressed, both ways
	Text       string
	Params     []Setting // values of {name:Type}
	Stage      uint64    // StageComplete, or that of another server
}

// StageComplete asks for a complete result; the other stages are for servers
// that talk to each other.
const StageComplete = 2

// ReadQuery reads a query packet behind its code. Its text, settings and
// parameters may have most bytes in all.
func (r *Reader) ReadQuery(most uint64) (q Query, err error) {
	if q.ID, err = r.str("query id", maxName); err != nil {
		return q, err
	}
	if q.Client, err = r.clientInfo(); err != nil {
		return q, err
	}
	if q.Settings, most, err = r.settings(most); err != nil {
		return q, err
	}
	if _, err = r.str("inter-server secret", maxName); err != nil {
		return q, err
	}
	if q.Stage, err = r.uvarint("stage", 16); err != nil {
		return q, err
	}
	if q.Stage != StageComplete && !r.peer {
		return q, fmt.Errorf("read query: %w: stage %d", ErrProtocol, q.Stage)
	}
	compressed, err := r.uvarint("compression", 1)
	if err != nil {
		return q, err
	}
	q.Compressed = compressed == 1
	if q.Text, err = r.str("query text", most); err != nil || r.revision < revisionParameters {
		return q, err
	}
	q.Params, _, err = r.settings(most - uint64(len(q.Text)))
	return q, err
}

// settings reads settings of at most so many bytes, and returns how many are left.
func (r *Reader) settings(left uint64) ([]Setting, uint64, error) {
	var all []Setting
	for len(all) <= maxSettings {
		name, err := r.str("setting name", min(maxName, left))
		if err != nil || name == "" {
			return all, left, err
		}
		left -= uint64(len(name))
		flags, err := r.uvarint("setting flags", 1<<16)
		if err != nil {
			return nil, 0, err
		}
		value, err := r.str("setting "+name, left)
		if err != nil {
			return nil, 0, err
		}
		left -= uint64(len(value))
		if flags&customSetting != 0 {
			if value, err = unquote(value); err != nil {
				return nil, 0, fmt.Errorf("read %s: %w", name, err)
			}
		}
		all = append(all, Setting{name, value})
	}
	return nil, 0, fmt.Errorf("read settings: %w: more than %d", ErrProtocol, maxSettings)
}

// clientInfo reads what a client says of itself, and returns its name.
func (r *Reader) clientInfo() (client string, err error) {
	kind, err := r.byte("query kind")
	if err != nil || kind == 0 {
		return "", err
	}
	if err := r.strings("initial user", "initial query id", "initial address"); err != nil {
		return "", err
	}
	if err := r.skip("initial time", 8); err != nil {
		return "", err
	}
	iface, err := r.byte("interface")
	switch {
	case err != nil:
		return "", err
	case iface == interfaceTCP:
		client, err = r.overTCP()
	case iface == interfaceLocal && r.peer:
		client, err = PeerName, r.within()
	default:
		err = fmt.Errorf("read client info: %w: interface %d", ErrProtocol, iface)
	}
	if err != nil {
		return "", err
	}
	if err := r.trace(); err != nil {
		return "", err
	}
	return client, r.uvarints("collaborate", "replica count", "replica number")
}

// Interfaces by which a query came to the server that it was sent to first.
const (
	interfaceTCP   = 1
	interfaceLocal = 6 // of a library
)

func (r *Reader) overTCP() (client string, err error) {
	if err := r.strings("OS user", "host name"); err != nil {
		return "", err
	}
	if client, err = r.str("client name", maxName); err != nil {
		return "", err
	}
	if err := r.uvarints("major version", "minor version", "client revision"); err != nil {
		return "", err
	}
	if err := r.strings("quota key"); err != nil {
		return "", err
	}
	return client, r.uvarints("distributed depth", "patch version")
}

func (r *Reader) within() error {
	if err := r.strings("quota key"); err != nil {
		return err
	}
	return r.uvarints("distributed depth")
}

func (r *Reader) trace() error {
	has, err := r.byte("trace")
	if err != nil || has == 0 {
		return err
	}
	if err := r.skip("trace id", 16+8); err != nil {
		return err
	}
	if err := r.strings("trace state"); err != nil {
		return err
	}
	return r.skip("trace flags", 1)
}

func (r *Reader) strings(names ...string) error {
	for _, name := range names {
		if _, err := r.str(name, maxName); err != nil {
			return err
		}
	}
	return nil
}

func (r *Reader) uvarints(names ...string) error {
	for _, name := range names {
		if _, err := r.uvarint(name, 1<<62); err != nil {
			return err
		}
	}
	return nil
}
