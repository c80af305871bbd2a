// Package sources takes the commands about sources that are crawled over HTTP:
// making, changing, enabling, disabling and deleting them, one or many.
package sources
