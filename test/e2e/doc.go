// Package e2e tries Millrace as its users do: it starts the built program as a
// process of its own, feeds it by "millrace emit", HTTP and NATS, kills it, and
// compares what it answers with a plain recount.
//
// The tests run the program that MILLRACE_BIN names, or build one. The embedded
// engines have to be installed: make engines.
package e2e
