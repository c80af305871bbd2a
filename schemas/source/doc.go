// Package source is the contract of the sources that are crawled: their fields,
// the rules that each field has to keep, and the events that say how a source has
// changed.
package source
