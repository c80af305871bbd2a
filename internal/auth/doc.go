// Package auth decides who may call what over HTTP: tokens (JWT, HS256) carry
// scopes, routes require them.
//
// A token is taken from the Authorization header. A WebSocket cannot set that
// from a browser, so for an upgrade request alone it may also come as the
// query parameter access_token or as the subprotocol pair "bearer, <token>";
// whoever upgrades such a connection answers with the subprotocol "bearer"
// ([Subprotocol]).
//
// Without a secret everything is allowed, which is why the server then listens
// on loopback addresses only.
package auth
