// Package console has the commands that ask a running installation over HTTP,
// for people at a terminal and for scripts: its status, funnel, events, queues,
// files and sources.
//
// A command prints a table, or with --json a document, or a line for each row
// of a list, with the fields of the server's answer. What a server or a
// publisher has written is escaped before it reaches a terminal. A command that
// changes many things, or what cannot be undone, names their number and asks
// first; where nobody can be asked, --yes has to say so.
package console
