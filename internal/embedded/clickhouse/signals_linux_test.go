package clickhouse_test

import (
	"errors"
	"runtime"
	"testing"
)

// TestNilDereference: with the engine in the process, one in Go is a panic as
// ever, before and after other sessions, and does not just end the process.
func TestNilDereference(t *testing.T) {
	for range 2 {
		func() {
			defer func() {
				err, _ := recover().(error)
				var fault runtime.Error
				if !errors.As(err, &fault) {
					t.Errorf("it ended with %v", err)
				}
			}()
			var missing *part
			t.Log(missing.name)
		}()
		exec(t, client(t), "SELECT 1")
	}
}
