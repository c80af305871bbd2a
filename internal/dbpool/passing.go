package dbpool

import (
	"errors"

	"github.com/ClickHouse/clickhouse-go/v2"
)

// Passes tells whether a later attempt may not meet an error of ClickHouse: any but an exception that a wrong statement
// or login causes, too.
func Passes(err error) bool {
	var exception *clickhouse.Exception
	return !errors.As(err, &exception) || passing[exception.Code]
}

// passing are the codes of exceptions that are not the statement's fault.
var passing = map[int32]bool{
	159: true, // TIMEOUT_EXCEEDED
	202: true, // TOO_MANY_SIMULTANEOUS_QUERIES
	241: true, // MEMORY_LIMIT_EXCEEDED
	243: true, // NOT_ENOUGH_SPACE
	394: true, // QUERY_WAS_CANCELLED

	// On a cluster, a shard is away, or goes while it answers.
	32:  true, // ATTEMPT_TO_READ_AFTER_EOF
	209: true, // SOCKET_TIMEOUT
	210: true, // NETWORK_ERROR
	236: true, // ABORTED
	242: true, // TABLE_IS_READ_ONLY, while a replica has lost its Keeper
	279: true, // ALL_CONNECTION_TRIES_FAILED
	519: true, // NO_REMOTE_SHARD_AVAILABLE
	999: true, // KEEPER_EXCEPTION
}
