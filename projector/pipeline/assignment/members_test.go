package assignment

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/internal/natstest"
	"github.com/millrace-io/millrace/schemas/stream"
)

// TestShareSettles: projectors that join and leave at random, and act one
// after the other, hold as many groups each but for one, and then stay so.
func TestShareSettles(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	rng := rand.New(rand.NewPCG(seed, 1))
	for range 200 {
		groups := 1 + rng.IntN(9)
		held := make([]int, 1+rng.IntN(6))
		free := groups
		for range 5 {
			if rng.IntN(2) == 0 {
				held = append(held, 0)
			} else if len(held) > 1 {
				free += held[0]
				held = held[1:]
			}
			if moves := balance(rng, groups, held, &free); moves > 20*groups {
				t.Fatalf("seed %d: %d groups among %v find no balance", seed, groups, held)
			}
			for _, h := range held {
				if free > 0 || h < groups/len(held) || h > (groups+len(held)-1)/len(held) {
					t.Fatalf("seed %d: %d groups are shared as %v, %d free", seed, groups, held, free)
				}
			}
		}
	}
}

// balance lets all act in a random order until no one does.
func balance(rng *rand.Rand, groups int, held []int, free *int) (moves int) {
	for quiet := 0; quiet < 3 && moves <= 20*groups; quiet++ {
		for _, i := range rng.Perm(len(held)) {
			var others []Member
			for j, h := range held {
				if j != i {
					others = append(others, Member{Held: h})
				}
			}
			switch take, give := Share(groups, held[i], others); {
			case take && *free > 0:
				held[i]++
				*free--
			case give:
				held[i]--
				*free++
			default:
				continue
			}
			moves++
			quiet = 0
		}
	}
	return moves
}

func TestDeadMembersAreForgotten(t *testing.T) {
	js := natstest.Start(t, stream.Config{}).JetStream()
	kv, err := js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "members"})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	a, b := NewRegister(kv, "a", time.Second), NewRegister(kv, "b", time.Second)
	a.now = func() time.Time { return now }
	beat := func(r *Register, held int, want string) {
		t.Helper()
		others, err := r.Beat(t.Context(), held)
		if got := fmt.Sprint(others); err != nil || got != want {
			t.Errorf("others are %s, %v, want %s", got, err, want)
		}
	}
	beat(b, 3, "[]")
	beat(a, 1, "[{b 3}]")
	beat(b, 2, "[{a 1}]")
	now = now.Add(900 * time.Millisecond)
	beat(a, 1, "[{b 2}]")
	now = now.Add(1100 * time.Millisecond)
	beat(a, 1, "[]")
	beat(b, 2, "[{a 1}]")
	beat(a, 1, "[{b 2}]")
	if err := b.Leave(t.Context()); err != nil {
		t.Error(err)
	}
	beat(a, 1, "[]")
}
