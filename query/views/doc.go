// Package views holds live views of the installation itself, besides that of the
// funnel: the queues, how far behind the slot groups are, and the dead letters.
// Each view is one file, which says by a small interface what it reads.
package views
