// Package chdb binds the ClickHouse engine library (libchdb) to Go, without cgo.
//
// The engine is one per process: [Library.Connect] opens a session of it, the
// first starts it and the closing of the last stops it. Sessions run side by
// side; within one, calls must not overlap. A query that another goroutine has
// to stop is stopped by KILL QUERY in another session.
package chdb
