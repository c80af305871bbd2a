// Package schedule is the rules of when jobs run: how often a source is crawled,
// and how long a job that fails waits. It is pure: it asks no clock and keeps
// nothing.
package schedule
