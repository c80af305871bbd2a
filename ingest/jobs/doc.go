// Package jobs takes the commands about sources and their jobs over HTTP: making, changing, importing, enabling,
// disabling and deleting sources; pausing, resuming and running jobs at once, and setting how they run; one or many.
package jobs
