package feed

import "github.com/millrace-io/millrace/internal/queue"

// LiveSQL is the statement that reads the items that a queue has.
func LiveSQL() string { return queue.Text(texts, "live") }
