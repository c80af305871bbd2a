// Package queues answers reads of user-defined queues over HTTP.
package queues
