// Package emit is for services that must not be delayed: Emit puts an event into a
// bounded buffer, or a spool on disk, and returns; the event is delivered over NATS
// or HTTP, with a circuit breaker between. The comment of [Client] says what it
// promises.
package emit
