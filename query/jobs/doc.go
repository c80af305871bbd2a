// Package jobs answers reads of the jobs that crawl sources: how they run, how they
// have done, what became of their due times, and of the events about their sources.
package jobs
