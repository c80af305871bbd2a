package mirror

import "github.com/millrace-io/millrace/internal/lag"

// GroupPosition is how far a slot group is.
type GroupPosition = lag.Position

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
		positions = append(positions, GroupPosition{Group: g, Folded: l.Reached(g, at)})
	}
	return positions
}
