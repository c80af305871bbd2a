// Package uploads has the contracts and the rules of files that people upload: the states of a job and
// of its items, ids and cursors, and how many rows a batch has. It knows no database.
package uploads
