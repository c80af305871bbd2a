// Package jobs takes the commands about jobs over HTTP: pausing, resuming and running
// them at once, one or many, and setting how they run.
package jobs
