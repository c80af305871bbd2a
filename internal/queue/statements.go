package queue

import "embed"

//go:embed sql/*.sql
var texts embed.FS

func text(name string) string { return Text(texts, name) }

// Text returns the statement in sql/name.sql of a package's own files. It panics
// when there is no such file.
func Text(files embed.FS, name string) string {
	b, err := files.ReadFile("sql/" + name + ".sql")
	if err != nil {
		panic(err)
	}
	return string(b)
}

var (
	sqlUnready = text("unready")
	sqlUndelay = text("undelay")
	sqlUnfail  = text("unfail")
	sqlClaim   = text("claim")
	sqlUnclaim = text("unclaim")
	sqlFail    = text("fail")
	sqlReady   = text("ready")
	sqlOutbox  = text("announce")

	sqlTakeEntries = text("take_entries")
	sqlDelay       = text("delay")
	sqlHistory     = text("history")
	sqlSame        = text("history_same")
	sqlTally       = text("tally")
)
