// Package emit publishes events from JSON lines, as `millrace emit` does.
//
//  1. Run returns without an error only when every line has been acknowledged
//     by the stream, or is counted as rejected under the rules that it breaks.
//  2. It waits for a server that is not there, and publishes again what was
//     not acknowledged, until a batch has waited for Config.Wait or the context
//     ends.
//  3. Its memory is bounded by the batches under way, whatever the input.
//
// A line is rejected for every rule that HTTP would refuse it for, all told at
// once. Lines that lie around are sent when the input pauses, so a pipe that
// trickles is published as it comes.
package emit
