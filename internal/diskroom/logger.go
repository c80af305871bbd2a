package diskroom

import (
	"fmt"
	"log/slog"
)

// Logger hands messages of a database on, at a level where they do not disturb. It
// implements Pebble's Logger.
type Logger struct {
	Name string       // of the database, which messages begin with
	Log  *slog.Logger // nil: nothing is logged
}

// Infof logs what the database does.
func (l Logger) Infof(format string, args ...any) {
	if l.Log != nil {
		l.Log.Debug(l.text(format, args))
	}
}

// Errorf logs what goes wrong.
func (l Logger) Errorf(format string, args ...any) {
	if l.Log != nil {
		l.Log.Error(l.text(format, args))
	}
}

// Background tells of what failed beside the calls, and is tried again.
func (l Logger) Background(err error) { l.Errorf("in the background: %v", err) }

// Fatalf ends the call of the database: Survive returns the message as its error.
func (l Logger) Fatalf(format string, args ...any) { panic(fatal(l.text(format, args))) }

func (l Logger) text(format string, args []any) string {
	return l.Name + ": " + fmt.Sprintf(format, args...)
}
