package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

// Faults by which one system fails for as long as they last.
const (
	failShards  kind = "fail-shards"
	failJobs    kind = "fail-jobs"
	failBatches kind = "fail-batches"
)

// ofSystemsArea has them.
var ofSystemsArea = area{"Systems that fail", []entry{
	{failShards, "a table of the shards is gone: the other systems go on"},
	{failJobs, "the same of the jobs"},
	{failBatches, "the same of the batches"},
}}

// ofSystems tells by which faults a system fails.
func ofSystems(k kind) bool { return slices.Contains(ofSystemsArea.names(), k) }

// system is what a fault of a system breaks, and how to tell that it works.
type system struct {
	table string
	works func(begin time.Time, limit time.Duration) bool
}

// failSystem renames a table of a system, so that whatever the system does fails, and returns
// when all the others have gone on meanwhile.
func (s *saboteur) failSystem(k kind) (end func() error, err error) {
	if s.shards == nil || s.crawls == nil || s.batches == nil {
		return nil, errors.New("not all systems are at work")
	}
	systems := map[kind]system{
		failShards:  {"file", s.shards.beyond},
		failJobs:    {"job", s.crawls.beyond},
		failBatches: {"batch", s.batches.beyond},
	}
	s.failing.Lock() // until it is mended: at most one fails at a time
	table := systems[k].table
	if err := s.rename(table, table+"_away"); err != nil {
		s.failing.Unlock()
		return nil, err
	}
	begin, before := time.Now(), s.watch.decided()
	delete(systems, k)
	if !s.watch.beyond(before, recoveryLimit) {
		s.fail("%s: no events are folded", k)
	}
	for _, other := range slices.Sorted(maps.Keys(systems)) {
		if !systems[other].works(begin, recoveryLimit) {
			s.fail("%s: the system of %s does not go on", k, other)
		}
	}
	return func() error {
		defer s.failing.Unlock()
		return s.rename(table+"_away", table)
	}, nil
}

// rename renames a table, though Postgres may be away, and the table in use.
func (s *saboteur) rename(from, to string) error {
	ctx, cancel := context.WithTimeout(context.Background(), recoveryLimit)
	defer cancel()
	return backoff.Do(ctx, func() error {
		conn, err := pgx.Connect(ctx, s.cluster.postgresURL(s.cluster.postgresAddr))
		if err != nil {
			return err
		}
		defer conn.Close(ctx)
		_, err = conn.Exec(ctx, fmt.Sprintf(`SET lock_timeout = '1s';
			ALTER TABLE IF EXISTS millrace.%s RENAME TO %s`, from, to))
		return err
	}, nil)
}
