// Package nearest finds the known name that an unknown one was probably meant
// to be.
package nearest

import (
	"strings"

	"github.com/agnivade/levenshtein"
)

// compared bounds how much of a name is looked at, in bytes: the caller chose it.
const compared = 64

// Name returns the known name with the least edit distance from an unknown one,
// and that distance. Case does not count, nor do "_", "-", "." and spaces. Of
// names at one distance the first is returned; without names, none.
func Name(unknown string, known []string) (name string, distance int) {
	unknown = Fold(unknown[:min(len(unknown), compared)])
	for _, candidate := range known {
		if d := levenshtein.ComputeDistance(unknown, Fold(candidate)); name == "" || d < distance {
			name, distance = candidate, d
		}
	}
	return name, distance
}

// Unknown returns the rule that an unknown member breaks. It names the nearest known member.
func Unknown(name string, known []string) string {
	if near, _ := Name(name, known); near != "" {
		return "is no field here: the nearest is " + near + ", of " + strings.Join(known, ", ")
	}
	return "is no field here: there are none"
}

// Fold removes what does not tell names apart.
func Fold(name string) string {
	return strings.Map(func(r rune) rune {
		if strings.ContainsRune("_-. ", r) {
			return -1
		}
		return r
	}, strings.ToLower(name))
}
