// Package tracking keeps files, their shards, and what became of each shard at
// each stage. A shard is an item in the queue of every stage; package queue
// moves it, and holds the promise about that.
package tracking
