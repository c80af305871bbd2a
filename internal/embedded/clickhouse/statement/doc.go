// Package statement reads as much of a SQL statement as a server needs that
// hands it on to the engine: what kind it is, where an INSERT's data begins,
// and whether one text holds several statements.
//
// It is a convenience for clients and decides nothing about access.
package statement
