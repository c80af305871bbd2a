// Package processes lists all processes of an installation, from any of them.
//
// Each process renews an entry in a bucket, and describes itself on the NATS subject
// stream.Processes, as a service of nats.go's package micro. A list waits for the answer of
// each process that has an entry. One that does not answer is listed as silent until its entry
// expires. A process that stops removes its entry.
//
// An answer has what /ready, /health and /metrics show, none of which is secret.
package processes
