// Package crowd bounds how many connections an HTTP server has, so that
// strangers who open them cannot take the files that the rest of the program
// needs: what it stores, and whom else it serves.
//
// When there are too many, a new one takes the place of the connection that has
// waited longest for a request. Those on which a request is under way stay, and
// so do those that a handler has taken over, such as WebSockets; while there
// are no others, who comes next is sent away.
package crowd
