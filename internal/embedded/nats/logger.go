package nats

import (
	"fmt"
	"log/slog"
	"sync/atomic"
)

// logger hands the server's log on. Its notices, some twenty at each start, are
// of interest to those who debug; a fatal error is Run's to return.
type logger struct {
	log   *slog.Logger
	first atomic.Pointer[error]
}

func (l *logger) Noticef(format string, v ...any) { l.log.Debug(fmt.Sprintf(format, v...)) }
func (l *logger) Warnf(format string, v ...any)   { l.log.Warn(fmt.Sprintf(format, v...)) }
func (l *logger) Errorf(format string, v ...any)  { l.log.Error(fmt.Sprintf(format, v...)) }
func (l *logger) Debugf(string, ...any)           {}
func (l *logger) Tracef(string, ...any)           {}

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
