package retry

import (
	"context"
	"sync"
	"time"
)

const (
	// remind is how often a loop tells that it still fails.
	remind = 10 * time.Minute
	// settled is for how long a session has to last, after others have failed, to count as well.
	settled = time.Minute
)

// Faults are what fails at present in a part of a process, and is tried again. The zero value has none. Any number of
// goroutines may use it.
type Faults struct {
	mu    sync.Mutex
	loops map[*Loop]struct{} // those that have failed, and may have lapsed
}

// Fault is a row of failures without a success between them.
type Fault struct {
	Since, Last time.Time // the first failure and the latest one
	Err         error     // the latest one; nil: there is no fault
}

// Lasted is the time from the first failure to the latest one. What is tried once an hour and has failed once has not
// lasted: nobody knows whether it would fail again.
func (f Fault) Lasted() time.Duration { return f.Last.Sub(f.Since) }

// Longest returns the fault that has lasted longest.
func (f *Faults) Longest() (longest Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for l := range f.loops {
		if one := l.present(); one.Err != nil && (longest.Err == nil || one.Lasted() > longest.Lasted()) {
			longest = one
		}
	}
	return longest
}

// Note returns a context in which loops note their faults. Without it they note them nowhere.
func (f *Faults) Note(ctx context.Context) context.Context {
	return context.WithValue(ctx, faultsKey{}, f)
}

type (
	faultsKey struct{}
	loopKey   struct{}
)

// Loop is something that is tried again after it has failed. A caller of NewLoop calls Failed and Well after each
// attempt, and End in the end. Any number of goroutines may use a Loop.
type Loop struct {
	faults  *Faults // nil: none are noted
	outside *Loop   // the loop of which this one is part of a session; nil: none

	mu     sync.Mutex
	fault  Fault
	lapses time.Time // when the fault counts no more; zero: never
	told   time.Time
}

// NewLoop returns a loop that has not failed. It notes its faults where ctx says.
func NewLoop(ctx context.Context) *Loop {
	l := &Loop{}
	l.faults, _ = ctx.Value(faultsKey{}).(*Faults)
	l.outside, _ = ctx.Value(loopKey{}).(*Loop)
	return l
}

// Failed notes that an attempt has failed. It returns whether to tell of it: of the first failure in a row, and then
// once in ten minutes.
func (l *Loop) Failed(err error) (tell bool) { return l.fail(err, 0) }

// SessionFailed notes that a session has failed, of which another one follows after a wait: one that lasts for longer
// than a minute counts as well, as does one that calls [Well].
func (l *Loop) SessionFailed(err error, wait time.Duration) (tell bool) {
	return l.fail(err, wait+settled)
}

func (l *Loop) fail(err error, lapse time.Duration) (tell bool) {
	if l.faults != nil {
		l.faults.mu.Lock()
		defer l.faults.mu.Unlock()
		if l.faults.loops == nil {
			l.faults.loops = map[*Loop]struct{}{}
		}
		l.faults.loops[l] = struct{}{}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if l.fault.Err == nil || l.lapsed(now) {
		l.fault.Since, l.told = now, time.Time{}
	}
	l.fault.Last, l.fault.Err, l.lapses = now, err, time.Time{}
	if lapse > 0 {
		l.lapses = now.Add(lapse)
	}
	if !l.told.IsZero() && now.Sub(l.told) < remind {
		return false
	}
	l.told = now
	return true
}

// Well notes that an attempt has succeeded, and returns whether one before it had failed.
func (l *Loop) Well() (had bool) {
	if l.outside != nil {
		l.outside.Well()
	}
	return l.clear()
}

// End forgets the fault of a loop that ends.
func (l *Loop) End() { l.clear() }

func (l *Loop) clear() (had bool) {
	if l.faults != nil {
		l.faults.mu.Lock()
		defer l.faults.mu.Unlock()
		delete(l.faults.loops, l)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	had = l.fault.Err != nil
	l.fault = Fault{}
	return had
}

// present returns the fault unless it has lapsed.
func (l *Loop) present() Fault {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lapsed(time.Now()) {
		return Fault{}
	}
	return l.fault
}

func (l *Loop) lapsed(now time.Time) bool { return !l.lapses.IsZero() && now.After(l.lapses) }

// Session returns a context for a session of the loop, in which [Well] is about the loop.
func (l *Loop) Session(ctx context.Context) context.Context {
	return context.WithValue(ctx, loopKey{}, l)
}

// Well says that the session which ctx belongs to has done what it is there for: those before it that have failed
// count no more. Without a session it does nothing.
func Well(ctx context.Context) {
	if l, _ := ctx.Value(loopKey{}).(*Loop); l != nil {
		l.Well()
	}
}
