package work

import _ "embed"

var (
	//go:embed sql/ready.sql
	sqlReady string
	//go:embed sql/plain_claims.sql
	sqlPlainClaims string
	//go:embed sql/announce.sql
	sqlAnnounce string
	//go:embed sql/decided.sql
	sqlDecided string
	//go:embed sql/lower.sql
	sqlLower string
)
