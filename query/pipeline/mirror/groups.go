package mirror

import "github.com/millrace-io/millrace/schemas/slots"

// GroupPosition is how far a slot group is.
type GroupPosition struct {
	slots.Group
	Folded uint64 // stream sequence up to which its events are counted
}

// GroupPositions returns how far the groups are that have something to fold, or
// may get something; none while it is not known which groups there are. Those of
// an epoch that ends come first.
func (m *Mirror) GroupPositions() []GroupPosition {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.state == nil || len(m.pos.layout.Epochs) == 0 {
		return nil
	}
	at, l := m.pos.in(m.state.folded), m.pos.layout
	var positions []GroupPosition
	for _, g := range append(l.Left(at), l.Current()...) {
		positions = append(positions, GroupPosition{g, l.Reached(g, at)})
	}
	return positions
}
