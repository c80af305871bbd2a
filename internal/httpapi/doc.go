// Package httpapi is the HTTP frame on which ingest and query register: the
// router, the OpenAPI description, problem documents (RFC 9457), limits,
// health, metrics and an orderly end.
//
// # Routes
//
// Under [Config.BasePath] (/api/v1) stand the operations of [Server.API],
// which are checked and described by huma, and those of [Server.Handle], which
// are plain handlers for bodies that stream, for WebSockets and for files. At
// the root are /health, /ready, /metrics and /openapi.json; every other GET at
// the root goes to the site (the page and its documentation).
// Answers of some length are compressed for callers that take gzip or zstd.
// No response names an absolute path, so a proxy may serve all of it under a
// prefix.
//
// # Errors
//
// Every error, whether of the router, of huma's validation, of a handler or of
// a panic, is a [Problem]. What is wrong with a request's content has status
// 400 and says in errors which field breaks which rule: all of them at once, as
// far as they can be told apart, and one for each field. A query parameter that
// an operation does not have is such an error, which names the nearest that it
// has. A handler returns [NewProblem] as its error, or calls [WriteProblem].
package httpapi
