package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// alone has each of the two projectors fold by itself what is published, for
// one that is broken for good is not missed while the other does its work.
func (s *saboteur) alone() {
	for _, p := range s.cluster.projectors[:2] {
		s.endInTime(p)
		if before := s.watch.decided(); !s.watch.beyond(before, recoveryLimit) {
			s.fail("at the end, without %s: the position does not move at %v", p.name, before)
		}
		p.release()
	}
}

// allUp waits until every role says that it has all it needs, and all it can do
// without; when says at what point of the run.
func (s *saboteur) allUp(when string) {
	c := s.cluster
	for _, p := range append([]*process{c.ingest, c.otherIngest, c.query, c.projectors[0], c.projectors[1]},
		c.schedulers...) {
		why := "nothing"
		if !within(recoveryLimit, func() bool { why = missing(p.http()); return why == "" }) {
			s.fail("%s, /ready of %s: %s", when, p.name, why)
		}
	}
}

// missing is what a role says that it lacks: nothing when everything is up.
func missing(addr string) string {
	body, err := fetchWithin(4*time.Second, "http://"+addr+"/ready")
	var r struct {
		Status string
		Checks []struct{ Name, Status, Error string }
	}
	if err == nil {
		err = json.Unmarshal([]byte(body), &r)
	}
	if err != nil {
		return err.Error()
	}
	var down []string
	for _, c := range r.Checks {
		if c.Status != "up" {
			down = append(down, fmt.Sprintf("%s is %s: %s", c.Name, c.Status, c.Error))
		}
	}
	if r.Status != "ready" || len(r.Checks) == 0 {
		down = append(down, fmt.Sprintf("it is %s by %d checks", r.Status, len(r.Checks)))
	}
	return strings.Join(down, "; ")
}
