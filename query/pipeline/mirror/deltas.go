package mirror

import (
	"errors"

	"github.com/millrace-io/millrace/schemas/funnel"
	"github.com/millrace-io/millrace/schemas/slots"
)

// Apply takes a delta, in the order of their announcement (invariant 3). It
// keeps the delta.
func (m *Mirror) Apply(d *funnel.Delta) {
	m.mu.Lock()
	defer m.mu.Unlock()
	step := m.pos.step(d.Group, d.From, d.To)
	if step == repeats {
		return
	}
	parts, complete, broken := m.assemble(d)
	if broken {
		step = gap
	}
	switch {
	case step == gap:
		m.log.Info("a funnel delta was missed: loading again", "group", d.Group, "from", d.From, "to", d.To)
		delete(m.parts, d.Group)
		m.pos.advance(d.Group, d.To)
		m.requestReload()
		return
	case !complete:
		return
	}
	m.pos.advance(d.Group, d.To)
	receiver := m.receiver()
	if receiver != nil {
		receiver.apply(parts)
	}
	// What answers goes on while it waits to be replaced, as far as it has missed nothing.
	waits := m.state != nil && m.state != receiver && m.pos.follows(m.state, d)
	if waits {
		m.state.apply(parts)
	}
	if waits || m.state != nil && m.state == receiver {
		m.notify()
	}
}

// receiver is the state that deltas go into: the one being loaded, else the
// one that answers. There is none while a load is waited for, which will see
// what the delta announces. The lock is held.
func (m *Mirror) receiver() *state {
	switch {
	case m.want:
		return nil
	case m.next != nil:
		return m.next
	}
	return m.state
}

// assemble collects the parts of a delta. Broken means that one is missing.
// The lock is held.
func (m *Mirror) assemble(d *funnel.Delta) (parts []*funnel.Delta, complete, broken bool) {
	held := m.parts[d.Group]
	delete(m.parts, d.Group)
	if d.Part == 0 {
		broken = len(held) > 0 && held[0].To != d.To
		held = nil
	} else if len(held) != int(d.Part) || held[0].From != d.From || held[0].To != d.To {
		return nil, false, true
	}
	held = append(held, d)
	if complete = len(held) == int(d.Parts); !complete {
		m.parts[d.Group] = held
	}
	return held, complete, broken
}

// Missed says that messages were lost, and that everything has to be loaded.
func (m *Mirror) Missed() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.requestReload()
}

// requestReload asks Run for a load of everything. The lock is held.
func (m *Mirror) requestReload() {
	m.want = true
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// wanted tells whether everything has to be loaded again.
func (m *Mirror) wanted() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.want
}

// reloadIfWanted loads everything, unless a load that was passed has begun anew
// since that was asked for.
func (m *Mirror) reloadIfWanted() error {
	if !m.wanted() {
		return nil
	}
	return m.Reload()
}

// Checkpoint is what the projector of a slot group says of its position.
type Checkpoint struct {
	Group    uint32
	Durable  uint64 // everything up to it is in the views
	Decided  uint64 // and is about to be up to here; 0: not known
	CaughtUp uint64 // nothing up to it is left for the group; 0: not known
	Baseline funnel.Baseline
}

// Checkpoint notes how far a slot group has come.
func (m *Mirror) Checkpoint(c Checkpoint) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.pos.checkpoint(c, m.cfg.Now()) && m.begun() && c.Durable > 0 {
		m.requestReload() // what of it is part of the load is not known
	}
	if m.pos.rebase(c.Group, c.Baseline) && m.begun() {
		m.log.Warn("the funnel's rows in ClickHouse are not those of before: loading again", "group", c.Group,
			"missing", c.Baseline.Missing)
		m.requestReload()
	}
}

// Missing returns how many events each slot group has counted that ClickHouse was found to
// lack, of those that lack any.
func (m *Mirror) Missing() map[uint32]uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	missing := map[uint32]uint64{}
	for group, b := range m.pos.baseline {
		if b.Missing > 0 {
			missing[group] = b.Missing
		}
	}
	return missing
}

// Arrange takes note of which slot groups there are. A layout that has been
// overtaken, from a server that lags behind, is passed over.
func (m *Mirror) Arrange(l slots.Layout) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(l.Epochs) < len(m.pos.layout.Epochs) {
		return
	}
	if m.pos.anticipated(l) && m.begun() {
		m.requestReload() // what is loaded goes by a cut without these groups
	}
	m.pos.arrange(l)
	if m.state != nil {
		m.notify()
	}
}

// begun tells whether there has been a load. The lock is held.
func (m *Mirror) begun() bool { return m.state != nil || m.next != nil }

// begin makes the state of a load of everything.
func (m *Mirror) begin() *state {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.want = false
	m.pos.catchUp()
	m.next = newState(m.cfg.Stages, m.base(), m.pos.applied, m.pos.baseline)
	return m.next
}

// Reload loads everything. Run does so at its start and after a gap.
func (m *Mirror) Reload() error {
	s, err := m.loadAll()
	for errors.Is(err, errPassed) {
		s, err = m.loadAll()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	defer m.notify()
	m.next, m.err = nil, err
	if err != nil {
		m.requestReload()
		return err
	}
	m.state = s
	m.reloads++
	return nil
}

func (m *Mirror) loadAll() (*state, error) {
	s := m.begin()
	t := s.series[funnel.AllSources]
	m.loadSeries(s, t)
	return s, t.err
}
