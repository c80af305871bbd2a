// Package queues answers reads of queues of people's own over HTTP.
package queues
