package client

import (
	"strings"
	"testing"
)

// TestWorkerNames: a name that the server would refuse is refused at once.
func TestWorkerNames(t *testing.T) {
	for name, ok := range map[string]bool{
		"": true, "host-7": true, "nats": false, "w\x00": false, "w\n": false, strings.Repeat("w", 201): false,
	} {
		if err := (WorkConfig{Worker: name}).withDefaults().check(); (err == nil) != ok {
			t.Errorf("%q: %v", name, err)
		}
	}
}
