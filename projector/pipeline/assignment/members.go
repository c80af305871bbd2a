package assignment

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Member is a projector.
type Member struct {
	Name string `json:"-"`
	Held int    `json:"held"` // slot groups that it owns
}

// Share says what a projector that holds some of the slot groups, beside
// others, may do for all to hold about as many: take one more, or give one up.
func Share(groups, held int, others []Member) (take, give bool) {
	n := len(others) + 1
	least, most := groups/n, (groups+n-1)/n
	if held < most {
		return true, false
	}
	if held > most {
		return false, true
	}
	for _, o := range others {
		if held > least && o.Held < least {
			return false, true
		}
	}
	return false, false
}

// Register is a projector's entry among the others, in a key-value bucket. It
// is not safe for concurrent use.
//
// Projectors know each other by it, so that they share the slot groups evenly. Nothing that
// is exact rests on it: who owns a group is decided by its checkpoint alone.
type Register struct {
	kv    jetstream.KeyValue
	name  string
	lease time.Duration
	seen  map[string]sign
	now   func() time.Time
}

// sign is a sign of life. Clocks of other machines do not matter for it.
type sign struct {
	revision uint64
	at       time.Time
}

const prefix = "member."

// forgetAfter is how many leases the entry of a dead member is kept.
const forgetAfter = 20

// NewRegister returns the entry of a projector by that name. One of which nothing has
// been heard for a lease counts no more.
func NewRegister(kv jetstream.KeyValue, name string, lease time.Duration) *Register {
	return &Register{kv: kv, name: name, lease: lease, seen: map[string]sign{}, now: time.Now}
}

// listWait is how long the list of members may take to come.
const listWait = 5 * time.Second

// Beat says that this projector is alive and holds some groups, and returns
// the others that are alive. It is to be called thrice a lease at least.
func (r *Register) Beat(ctx context.Context, held int) ([]Member, error) {
	value, err := json.Marshal(Member{Held: held})
	if err != nil {
		return nil, fmt.Errorf("write member: %w", err)
	}
	if _, err := r.kv.Put(ctx, prefix+r.name, value); err != nil {
		return nil, fmt.Errorf("write member: %w", err)
	}
	// Where the server skips a damaged key, the end of the list never comes. Then the rest
	// counts: package integrity names the damage.
	listing, cancel := context.WithTimeout(ctx, listWait)
	defer cancel()
	keys, err := r.kv.ListKeysFiltered(listing, prefix+"*")
	if err != nil {
		return nil, fmt.Errorf("list members: %w", err)
	}
	var others []Member
	for key := range keys.Keys() {
		name := strings.TrimPrefix(key, prefix)
		if name == r.name {
			continue
		}
		m, alive, err := r.look(ctx, name)
		if err != nil {
			return nil, err
		}
		if alive {
			others = append(others, m)
		}
	}
	return others, nil
}

func (r *Register) look(ctx context.Context, name string) (Member, bool, error) {
	entry, err := r.kv.Get(ctx, prefix+name)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		delete(r.seen, name)
		return Member{}, false, nil
	}
	if err != nil {
		return Member{}, false, fmt.Errorf("read member %s: %w", name, err)
	}
	s := r.seen[name]
	if s.revision != entry.Revision() {
		s = sign{entry.Revision(), r.now()}
		r.seen[name] = s
	}
	m := Member{Name: name}
	legible := json.Unmarshal(entry.Value(), &m) == nil // no member writes anything else
	silent := r.now().Sub(s.at)
	if silent > forgetAfter*r.lease {
		// Whoever is alive after all writes a new entry.
		_ = r.kv.Purge(ctx, prefix+name, jetstream.LastRevision(s.revision))
	}
	return m, legible && silent <= r.lease, nil
}

// Leave takes the entry out, so that the others share without this projector
// at once.
func (r *Register) Leave(ctx context.Context) error {
	if err := r.kv.Purge(ctx, prefix+r.name); err != nil {
		return fmt.Errorf("remove member: %w", err)
	}
	return nil
}
