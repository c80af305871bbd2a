package pulls

import "container/heap"

// indexed is a heap whose elements know their places in it, from 1; 0 means that the element is not in the heap.
type indexed[T any] struct {
	all    []T
	before func(a, b T) bool
	place  func(T) *int
}

func (h *indexed[T]) Len() int           { return len(h.all) }
func (h *indexed[T]) Less(i, j int) bool { return h.before(h.all[i], h.all[j]) }
func (h *indexed[T]) Swap(i, j int) {
	h.all[i], h.all[j] = h.all[j], h.all[i]
	*h.place(h.all[i]), *h.place(h.all[j]) = i+1, j+1
}

func (h *indexed[T]) Push(x any) {
	h.all = append(h.all, x.(T))
	*h.place(x.(T)) = len(h.all)
}

func (h *indexed[T]) Pop() any {
	last := len(h.all) - 1
	x := h.all[last]
	clear(h.all[last:])
	h.all, *h.place(x) = h.all[:last], 0
	return x
}

// set puts x into the heap, moves it to its place, or takes it out.
func (h *indexed[T]) set(x T, in bool) {
	switch at := *h.place(x); {
	case in && at == 0:
		heap.Push(h, x)
	case in:
		heap.Fix(h, at-1)
	case at > 0:
		heap.Remove(h, at-1)
	}
}

// first returns the first one; false: there is none.
func (h *indexed[T]) first() (first T, ok bool) {
	if len(h.all) == 0 {
		return first, false
	}
	return h.all[0], true
}
