// Command rot damages files of an installation, one at a time, and counts how often
// the damage goes unnoticed.
//
// It prepares one folder with streams, a key store and a client's spool, once
// stopped cleanly and once killed. Each trial copies a part of it, flips a bit or
// cuts off the end of one file, starts what reads the files, and compares what is
// read with what was written. A trial is
//
//   - harmless if everything is there;
//   - named if something is missing or wrong, or made anew, and an error, a log line
//     of level ERROR, or /health names the store that was damaged;
//   - misnamed if another store is named;
//   - silent if something is missing or wrong, and nothing is said;
//   - "fills memory" if the NATS server takes all memory there is, as docs/recovery.md
//     says. Such trials are counted, and the command succeeds.
//
// A trial is decided by its seed. To see one again: go run ./test/rot -seed SEED -n 1 -v.
package main
