package mirror

// slack is by how many quarters a state may begin too early or too late: less
// than the day that horizon has to spare, and more than passes between two
// looks at the clock.
const slack = 12 * 4

// tend keeps a state within its bounds. One that was loaded by another clock is
// left as it is, and everything is loaded again (invariant 5). The lock is
// held.
func (m *Mirror) tend(s *state) {
	base := m.base()
	if base > s.base+slack || base+slack < s.base {
		m.outdated()
		return
	}
	s.tend(base, m.cfg.Limits)
}

// outdated has everything loaded again, unless that is under way. The lock is
// held.
func (m *Mirror) outdated() {
	if m.want || m.next != nil {
		return
	}
	m.log.Warn("the clock has been set: loading the funnel again")
	m.requestReload()
}
