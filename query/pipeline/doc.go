// Package pipeline answers reads of the pipeline, over HTTP and as live views:
// the funnel, statistics, drift of models, sources, gaps between stages and, by
// the package events, events and journeys of articles.
//
// The funnel of a live window (a period that ends now) comes from the mirror
// (package mirror), which holds it in memory; windows in the past, and counts
// that are wanted exact beyond what the mirror holds, come from ClickHouse
// (package store). Whatever the way, the numbers of an answer are of one
// moment, belong to the window that the answer names, and say whether distinct
// articles are exact or estimates. Sketches in ClickHouse alone are of whatever
// is folded when they are read, which may be ahead of the sequence that the
// answer names.
//
// Statistics show the numbers of a funnel and break the events up that it
// counted: those of its window up to the stream sequence that it is folded to,
// which the events table holds as soon as the funnel names it.
package pipeline
