package userqueue

import (
	"github.com/millrace-io/millrace/internal/queue"
)

// Limits are the limits of a user-defined queue.
type Limits struct {
	Concurrency int         `json:"concurrency" doc:"Items out at a time, with all workers together; 0: any number"`
	PerGroup    int         `json:"concurrency_per_group" doc:"Items of one group out at a time; 0: any number"`
	RatePerKey  *queue.Rate `json:"rate_per_key" doc:"Starts of items with the same key in any so many seconds; null: any number"`
	RetentionS  float64     `json:"retention_s" doc:"Seconds for which finished items are kept"`
	MaxItems    int         `json:"max_items" doc:"Live items; as many finished ones are kept"`
}

// LimitsOf are those of a queue.
func LimitsOf(v queue.Settings) Limits {
	l := Limits{v.Concurrency, v.PerGroup, nil, v.RetentionS, v.MaxItems}
	if v.RatePerKey.Count > 0 {
		l.RatePerKey = &v.RatePerKey
	}
	return l
}
