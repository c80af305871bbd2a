// Command bento is the stream processor Bento (of the Benthos family, MIT) with
// the parts that bring a JetStream into ClickHouse: a peer for test/faults,
// which runs it on pipeline.yaml.
//
// It is a module of its own, to keep what it depends on away from Millrace.
package main

import (
	"context"
	"os"

	_ "github.com/ClickHouse/clickhouse-go/v2"
	_ "github.com/warpstreamlabs/bento/public/components/nats"
	_ "github.com/warpstreamlabs/bento/public/components/pure"
	_ "github.com/warpstreamlabs/bento/public/components/sql/base"
	"github.com/warpstreamlabs/bento/public/service"
)

func main() {
	os.Stdout = os.Stderr // for its log to be where others have it
	service.RunCLI(context.Background())
}
