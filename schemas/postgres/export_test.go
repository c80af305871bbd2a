package postgres

// For tests.
var (
	Provider = provider
	Files    = files
)

const MakeSchema = makeSchema
