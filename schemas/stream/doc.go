// Package stream holds the contracts of what travels on NATS: subjects,
// streams, headers of dead letters, and the bucket in which projectors decide
// their batches.
package stream
