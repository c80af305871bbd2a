// Package connlimit bounds how many connections an HTTP server has, so that
// strangers who open them cannot take the files that the rest of the program
// needs for its storage and its other servers.
//
// At the limit a new connection replaces the one that has waited longest for a
// request, be it that nothing of the request has come or not yet all of its
// headers. While there is none, it replaces the one whose handler has waited longest
// for the next part of a body. Connections whose requests have arrived stay, and so
// do those that a handler keeps or has taken over, such as WebSockets. While there are
// no others, a new connection is answered with status 503 and closed.
package connlimit
