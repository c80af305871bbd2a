package batches

import (
	"strings"
	"time"
)

// Policy is how items with errors of a category are tried again.
type Policy struct {
	Queue string // whose items the retries are
	// Waits are the times before each attempt; there are as many attempts.
	Waits []time.Duration
}

// policies are those of the categories that are tried again by themselves.
var policies = map[Category]Policy{
	RateLimiting: {"recrawl-rate-limiting", []time.Duration{
		10 * time.Second, time.Minute, 5 * time.Minute, 15 * time.Minute, time.Hour,
	}},
	Network: {"recrawl-network", growing},
	Storage: {"recrawl-storage", growing},
	Generic: {"recrawl-generic", []time.Duration{5 * time.Second}},
}

var growing = []time.Duration{5 * time.Second, 30 * time.Second, 2 * time.Minute, 10 * time.Minute, 30 * time.Minute}

// Retry returns how items with errors of the category are tried again, and whether they are
// without anybody asking. Those that somebody asks for are tried as generic ones are.
func (c Category) Retry() (p Policy, automatic bool) {
	if p, automatic = policies[c]; !automatic {
		p = policies[Generic]
	}
	return p, automatic
}

// Policies returns the policies of all categories that are tried again, each with a queue
// of its own.
func Policies() []Policy {
	return []Policy{policies[RateLimiting], policies[Network], policies[Storage], policies[Generic]}
}

// Task is what the item of a queue says about the crawl that is to be tried again.
type Task struct {
	JobID         string   `json:"job_id"`
	BatchIndex    int32    `json:"batch_index"`
	Position      int      `json:"position"`
	ContentID     string   `json:"content_id,omitempty"`
	Permalink     string   `json:"permalink,omitempty"`
	ProjectID     string   `json:"project_id,omitempty"`
	Platform      string   `json:"platform,omitempty"`
	TaskType      string   `json:"task_type,omitempty"`
	KeywordSource string   `json:"keyword_source,omitempty"`
	ErrorCategory Category `json:"error_category"`
	ErrorCode     string   `json:"error_code"`
}

// MaxTaskText is how many bytes a text of a Task has at most. Items may have longer ones:
// the task leaves them out, so that it fits into a queue.
const MaxTaskText = 4096

// TaskOf returns the task of the item at a position of a batch, which is an error.
func TaskOf(a *Announcement, position int, o *Outcome) Task {
	text := func(said, otherwise string) string {
		if said == "" {
			said = otherwise
		}
		if len(said) > MaxTaskText {
			return ""
		}
		return Text(said)
	}
	return Task{
		JobID: a.Batch.Job, BatchIndex: a.Batch.Index, Position: position, ContentID: text(o.ContentID, ""),
		Permalink: text(o.Permalink, ""), ProjectID: ProjectOf(a.Batch.Job), Platform: a.Platform,
		TaskType: text(o.TaskType, a.TaskType), KeywordSource: text(o.Keyword, a.Keyword),
		ErrorCategory: o.Category, ErrorCode: text(o.Code, ""),
	}
}

// ReadRetry returns the outcome of an item that was tried again, from what its worker says.
// It is about the item of that id, if that had one.
func ReadRetry(text []byte, contentID string) Outcome {
	o := ReadItem(text)
	if contentID == "" || o.ContentID == contentID || o.ContentID == "" && !o.OK() && o.Category == Parsing {
		return o
	}
	return Outcome{
		ContentID: contentID, Category: Parsing, Code: ParseError,
		Message: "content_id: must be that of the item that was tried again",
	}
}

// Text is a text as Postgres can hold it, without NUL.
func Text(text string) string { return strings.ReplaceAll(text, "\x00", "\ufffd") }
