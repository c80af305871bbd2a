// Package auth decides who may call what over HTTP: tokens (JWT, HS256) carry
// scopes, routes require them.
//
// A token is taken from the Authorization header. A browser's WebSocket cannot
// set that, so an upgrade request may also have it as the query parameter
// access_token or as the subprotocol pair "bearer, <token>"; whoever upgrades
// such a connection answers with the subprotocol "bearer" ([Subprotocol]). Nor
// can a browser's EventSource, so streams of events ([Auth.RequireEvents]) take
// access_token, too. No other route does.
//
// Without a secret everything is allowed, which is why the server then listens
// on loopback addresses only.
package auth
