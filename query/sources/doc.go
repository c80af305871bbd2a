// Package sources answers reads of the sources that are crawled.
package sources
