// Package shards takes the commands of shard tracking over HTTP: registering
// files, moving items through their stages, taking them from queues, and what
// operators do. The state and its rules are those of internal/tracking.
package shards
