// Package window turns what a caller asks for (a period and a time zone, or
// two times) into the span of time that a view covers. It has no I/O but the
// clock that is handed to it; the time zone database is built in.
//
// A window of a period is live: it holds everything from From on, also events
// that a fast clock has set up to a few seconds ahead, and To only says when
// it was looked at. A custom window is [From, To).
package window
