// Package plain is what most teams write to bring a stream into a table: pull
// messages, decode them with encoding/json, insert them as a batch, and then
// acknowledge them. It does what it can with the broker's window for repeats
// and with acknowledgements, and knows nothing of Millrace's ways: benchmarks
// and faults compare with it.
package plain
