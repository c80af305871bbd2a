// Package shards answers what is asked about shards over HTTP: queues, files,
// their history, numbers for operators, and transitions as they happen.
package shards
