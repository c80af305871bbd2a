// Package window turns what a caller asks for (a period and a time zone, or
// two times) into the span of time that a view covers. It has no I/O but the
// clock that is handed to it; the time zone database is built in.
//
// A window of a period is live: it holds everything from From on, and To only
// says when it was looked at. That is also what a fast clock has set ahead: by a
// few seconds, or by days where the clock of the broker was wrong as well, which
// is what events are held to. A custom window is [From, To); without a To of its own
// it ends at the time of the request.
package window
