// Package uploads takes files that people upload, persists their rows, and runs the built-in processor
// copy. [Handler] has the commands over HTTP, and [Runner] does the work in the background. Package
// internal/uploads has the invariants.
package uploads
