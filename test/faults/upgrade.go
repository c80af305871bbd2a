package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// upgrade has every role go on with the program under test in the place of an earlier
// release, one after the other, in any order: in between both are at work. Each release
// works alone for a while.
func (s *saboteur) upgrade(ctx context.Context, alone time.Duration, random *rand.Rand) {
	wait(ctx, alone)
	c := s.cluster
	ps := slices.Concat([]*process{c.clickhouse, c.ingest, c.otherIngest, c.query}, c.projectors, c.schedulers)
	random.Shuffle(len(ps), func(i, j int) { ps[i], ps[j] = ps[j], ps[i] })
	for _, p := range ps {
		begin, down := time.Now(), p.pid() == 0 // one that is held down
		s.endInTime(p)
		p.bin = c.bin
		p.release()
		if down {
			continue
		}
		fmt.Fprintf(s.out, "%s %s is upgraded\n", begin.Format(time.TimeOnly), p.name)
		wait(ctx, time.Duration(random.IntN(3000))*time.Millisecond)
	}
	if before := s.watch.decided(); !s.watch.beyond(before, recoveryLimit) {
		s.fail("after the upgrade: the position does not move at %v", before)
	}
	s.allUp("after the upgrade")
}
