// Package uploadsapi is what commands and reads of uploads share over HTTP: who asks, how a request names
// an upload, and what an upload looks like.
package uploadsapi
