package nats

import (
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
)

// logger hands the server's log on. Its notices, some twenty at each start, are
// of interest to those who debug; a fatal error is Run's to return.
type logger struct {
	log    *slog.Logger
	first  atomic.Pointer[error]
	broken chan struct{} // holds a token once the storage has failed
}

func (l *logger) Noticef(format string, v ...any) { l.log.Debug(fmt.Sprintf(format, v...)) }

// Warnf hands a warning on. The server only warns of damage that it finds in its
// files, though it may have lost messages by it.
func (l *logger) Warnf(format string, v ...any) {
	text := strings.TrimSpace(fmt.Sprintf(format, v...))
	if tellsOfDamage(text) {
		l.log.Error("the NATS server has found damage in its files", "says", text)
		return
	}
	l.log.Warn(text)
}

// tellsOfDamage tells whether a line of the server's log is about a file that is not
// as the server has written it. (A test notices when it says so otherwise.)
func tellsOfDamage(text string) bool {
	text = strings.ToLower(text)
	for _, part := range []string{
		"checksum", "corrupt", "malformed", "could not locate msg block", "error adding consumer", "metafile",
		"inconsistency",
	} {
		if strings.Contains(text, part) {
			return true
		}
	}
	return false
}

func (l *logger) Debugf(string, ...any) {}
func (l *logger) Tracef(string, ...any) {}

// Errorf also takes note of what the server tells nobody but its log: that it
// will store no more messages. (A test notices when it says so otherwise.)
func (l *logger) Errorf(format string, v ...any) {
	text := fmt.Sprintf(format, v...)
	l.log.Error(text)
	if strings.Contains(strings.ToLower(text), "critical write error") {
		select {
		case l.broken <- struct{}{}:
		default:
		}
	}
}

func (l *logger) Fatalf(format string, v ...any) {
	err := fmt.Errorf(format, v...)
	l.first.CompareAndSwap(nil, &err)
}

func (l *logger) fatal() error {
	if err := l.first.Load(); err != nil {
		return *err
	}
	return nil
}
