package item

import (
	"strings"
	"time"
)

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

// ClassWait returns how long an item waits after so many attempts, of which the last failed with an error of a class:
// twice as long each time. The caller adds jitter.
func ClassWait(name string, attempts int32) time.Duration {
	first, most := 2*time.Second, 2*time.Minute
	switch ClassOf(name) {
	case ClassThrottled:
		first, most = 10*time.Second, 10*time.Minute
	case ClassServer:
		first, most = 5*time.Second, 5*time.Minute
	}
	return min(first<<min(max(attempts-1, 0), 16), most)
}
