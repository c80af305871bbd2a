// Package shard holds the stages through which the shards of a file move: what
// the HTTP commands, the work queues and the table pipeline_tracking agree on.
// It is pure: it reads no clock and no database.
//
// A file of events is cut into shards. Each pair (filename, shard) has a status
// of its own at every stage. Package item holds the rules by which it moves.
package shard
