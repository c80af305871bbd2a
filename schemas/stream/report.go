package stream

import "encoding/json"

// Report is a request on WorkReport: what became of an item that a worker has.
type Report struct {
	Queue      string `json:"queue"`
	ID         int64  `json:"id"`
	Generation int32  `json:"generation"` // of the message, or of the taking
	Report     string `json:"report"`     // done, fail, again, release or extend

	Worker    string          `json:"worker,omitempty"`
	Result    json.RawMessage `json:"result,omitempty"` // with done
	Error     string          `json:"error,omitempty"`  // with fail, again and release
	Permanent bool            `json:"permanent,omitempty"`
	DelayS    *float64        `json:"delay_s,omitempty"`
	LeaseS    *float64        `json:"lease_s,omitempty"`  // with extend
	Progress  string          `json:"progress,omitempty"` // with extend

	// In queues that uploads follow.
	NotFound    bool     `json:"not_found,omitempty"`     // with done: there is no result
	Skipped     bool     `json:"skipped,omitempty"`       // with done: the row needs none
	Class       string   `json:"class,omitempty"`         // with fail: of the error, such as throttled, server or network
	Domain      string   `json:"domain,omitempty"`        // with fail: whose error it is
	RetryAfterS *float64 `json:"retry_after_s,omitempty"` // with fail: the least time until the next attempt
}

// Reported answers a Report: the item as it is now, or an error and nothing was changed.
type Reported struct {
	ID         int64         `json:"id,omitempty"`
	State      string        `json:"state,omitempty"`
	Generation int32         `json:"generation,omitempty"`
	Attempts   int32         `json:"attempts,omitempty"`
	Error      string        `json:"error,omitempty"`
	Errors     []ReportFault `json:"errors,omitempty"`
	Refused    bool          `json:"refused,omitempty"` // the same request will never do
}

// ReportFault is a rule that a report breaks.
type ReportFault struct {
	Field string `json:"field"`
	Code  string `json:"code"`
	Rule  string `json:"rule"`
}
