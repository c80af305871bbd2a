package mirror

import "slices"

// quarter numbers the quarters of an hour since 1970.
type quarter = uint32

// maxQuarters is how many quarters a state holds at most: 64 days.
const maxQuarters = 64 * 96

// history counts something by quarter. What lies before base is not counted. The
// state admits what lies behind (state.admit).
type history struct {
	base quarter
	n    []uint32
}

// add counts d more, or fewer, in a quarter.
func (h *history) add(q quarter, d int32) {
	if q < h.base {
		return
	}
	i := int(q - h.base)
	if i >= len(h.n) {
		h.n = append(h.n, make([]uint32, i+1-len(h.n))...)
	}
	h.n[i] += uint32(d) // wraps for a negative d, as intended
}

// since sums up the quarters from q on.
func (h *history) since(q quarter) uint64 {
	from := 0
	if q > h.base {
		from = int(q - h.base)
	}
	var sum uint64
	for i := from; i < len(h.n); i++ {
		sum += uint64(h.n[i])
	}
	return sum
}

// trim forgets what lies before q.
func (h *history) trim(q quarter) {
	if q <= h.base {
		return
	}
	h.n = slices.Delete(h.n, 0, min(int(q-h.base), len(h.n)))
	h.base = q
}

// firstCounted returns the earliest quarter in which one of the histories counts
// anything, and whether there is such.
func firstCounted(histories []history) (first quarter, any bool) {
	for i := range histories {
		h := &histories[i]
		if k := slices.IndexFunc(h.n, func(n uint32) bool { return n > 0 }); k >= 0 {
			if q := h.base + quarter(k); !any || q < first {
				first, any = q, true
			}
		}
	}
	return first, any
}
