package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"strings"
	"time"
)

// numbers are those of slot groups that an installation is taken through.
var numbers = []int{1, 2, 3, 4, 6}

// regroup changes the number of slot groups by the command that does so, and
// waits with it until the projectors have.
func (s *saboteur) regroup(f fault) (end func() error, err error) {
	random := rand.New(rand.NewPCG(f.seed, 5))
	return func() error { return nil }, s.ask(random)
}

// killRegroup asks for another number of slot groups, and kills some of those
// who carry it out, at once or a moment later.
func (s *saboteur) killRegroup(f fault) (end func() error, err error) {
	random := rand.New(rand.NewPCG(f.seed, 5))
	if err := s.ask(random, "--no-wait"); err != nil {
		return nil, err
	}
	time.Sleep(time.Duration(random.IntN(2500)) * time.Millisecond) // for any of the steps
	c := s.cluster
	switch random.IntN(6) {
	case 0:
		return kill(s.leader()), nil
	case 1:
		return kill(s.standby()), nil
	case 2:
		return kill(c.projectors[:2]...), nil
	case 3:
		return kill(c.clickhouse, s.leader()), nil
	case 4:
		if c.nodes != nil {
			return kill(c.nodes.leader(s.watch.js, true), s.standby()), nil
		}
		return kill(c.nats, s.standby()), nil
	}
	return kill(c.all()...), nil
}

// ask runs the command with another number than there are groups, again for as
// long as it cannot be asked for.
func (s *saboteur) ask(random *rand.Rand, flags ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), recoveryLimit)
	defer cancel()
	return backoff.Do(ctx, func() error {
		number := numbers[random.IntN(len(numbers))]
		args := append([]string{"regroup", fmt.Sprint("--slot-groups=", number), "--nats-url=" + s.cluster.natsURL()},
			flags...)
		cmd := exec.CommandContext(ctx, s.cluster.bin, args...)
		cmd.Env = cleanEnv()
		out, err := cmd.CombinedOutput()
		if err == nil && strings.Contains(string(out), "already") {
			err = fmt.Errorf("there are %d already", number)
		}
		if err != nil { // another change is under way, or NATS is down
			return fmt.Errorf("%s: %s: %w", strings.Join(args, " "), tail(string(out), 3), err)
		}
		return nil
	}, nil)
}
