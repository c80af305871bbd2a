package postgres

// For tests.
var (
	Provider     = provider
	Files        = files
	CheckVersion = checkVersion
)

const MakeSchema = makeSchema
