// Package shards answers reads of shards over HTTP: queues, files,
// their history, numbers for operators, and transitions as they happen.
package shards
