package judge

import "fmt"

// Refusal says what of a statement is not allowed.
type Refusal struct {
	What string // "function file"
	Hint string // what to do instead; empty when nothing is known
}

func (r *Refusal) Error() string {
	if r.Hint == "" {
		return r.What + " is not allowed"
	}
	return r.What + " is not allowed (" + r.Hint + ")"
}

func refuse(format string, args ...any) error {
	return &Refusal{What: fmt.Sprintf(format, args...)}
}

func refuseHint(hint, format string, args ...any) error {
	return &Refusal{What: fmt.Sprintf(format, args...), Hint: hint}
}
