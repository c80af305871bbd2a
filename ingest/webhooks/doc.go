// Package webhooks gives queues webhooks over HTTP, and sends their items.
package webhooks
