// Package batches lets batches of crawled items in: what is here so far takes the objects
// that hold them, for publishers that have no S3.
//
// PUT /objects answers 201 when an object is on disk, 200 when it was there already, and
// never overwrites one. After 503 the same request may be sent again.
package batches
