// Package processes tells of all processes of an installation, at any of them.
//
// Each process answers requests on the NATS subject stream.Processes with what it does, as a
// service of nats.go's package micro, and has an entry in a bucket that it renews. Who asks
// waits for those in the bucket: one that does not answer is told of as such, until its entry
// has expired. A process that stops removes its entry.
//
// An answer has what /ready, /health and /metrics say, of which nothing is secret.
package processes
