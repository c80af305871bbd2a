package item

import "strings"

// Classes of errors, by their canonical names.
const (
	ClassThrottled = "throttled" // 429: the other side asks for fewer requests
	ClassServer    = "server"    // 5xx
	ClassNetwork   = "network"   // timeouts, broken connections, and errors of no known class
	ClassInvalid   = "invalid"   // the same request will never succeed: there is no other attempt
)

// ClassOf returns the class that a name stands for. HTTP statuses are names, too.
func ClassOf(name string) string {
	switch name = strings.ToLower(name); {
	case name == ClassThrottled || name == "rate_limited" || name == "429":
		return ClassThrottled
	case name == ClassServer || name == "5xx" || len(name) == 3 && name[0] == '5':
		return ClassServer
	case name == ClassInvalid || name == "permanent":
		return ClassInvalid
	}
	return ClassNetwork
}
