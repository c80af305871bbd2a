// Package views holds live views of the installation itself, whatever its systems
// are: the queues and the dead letters. Each view is one file, which says by a
// small interface what it reads.
package views
