package shard

import "github.com/millrace-io/millrace/schemas/item"

// What shards share with all other items has the names of package item.
type (
	Status  = item.Status
	Move    = item.Move
	Outcome = item.Outcome
	Invalid = item.Invalid
)

// The statuses.
const (
	New     = item.New
	Started = item.Started
	Done    = item.Done
	Failed  = item.Failed
)

// The moves.
const (
	Start    = item.Start
	Complete = item.Complete
	Fail     = item.Fail
	Retry    = item.Retry
	Release  = item.Release
	Again    = item.Again
	Expire   = item.Expire
	Cancel   = item.Cancel
	Register = item.Register
)

// The outcomes of moves.
const (
	Changed   = item.Changed
	Repeated  = item.Repeated
	Forbidden = item.Forbidden
	Fenced    = item.Fenced
	NotFound  = item.NotFound
	Paused    = item.Paused
	Full      = item.Full
)

// MaxError is how many bytes of an error are kept.
const MaxError = item.MaxError

// ParseStatus finds a status by its name.
func ParseStatus(name string) (Status, bool) { return item.ParseStatus(name) }

// CheckLease holds how long an item may be taken for, in seconds.
func CheckLease(seconds float64) error { return item.CheckLease(seconds) }

// CheckDelay holds how long an item may be delayed, in seconds.
func CheckDelay(seconds float64) error { return item.CheckDelay(seconds) }

// CutError makes a text of an error that a column can hold.
func CutError(text string) string { return item.CutError(text) }
