// Package jobs tells of sources and their jobs: how these run, how they have done, what became of their due times, and
// of the events about their sources.
package jobs
