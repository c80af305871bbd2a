package work

import (
	_ "embed"

	"github.com/millrace-io/millrace/schemas/shard"
)

var (
	//go:embed sql/still_ready.sql
	sqlStillReady string
	//go:embed sql/ready.sql
	sqlReady string
	//go:embed sql/plain_claims.sql
	sqlPlainClaims string
	//go:embed sql/announce.sql
	sqlAnnounce string
	//go:embed sql/sequence.sql
	sqlSequence string
)

func shardStage(n int16) shard.Stage { return shard.Stage(n) }

// columns are refs as Postgres unnests them.
func columns(refs []ref) (items []int64, stages []int16, generations []int32) {
	for _, r := range refs {
		items, stages, generations = append(items, r.Item), append(stages, int16(r.Stage)), append(generations, r.Generation)
	}
	return items, stages, generations
}
