// Package connlimit bounds how many connections an HTTP server has, so that
// strangers who open them cannot take the files that the rest of the program
// needs for its storage and its other servers.
//
// At the limit a new connection replaces one that waits for its client: for a request, for
// the rest of its headers, or for the next part of a body that its handler reads. Of these
// it replaces the one whose last request began, or ended, the longest ago, so that a client
// cannot stay longer by sending a byte now and then. Connections whose requests have arrived
// stay, and so do those that a handler keeps or has taken over, such as WebSockets. While
// there are no others, a new connection is answered with status 503 and closed.
package connlimit
