package tracking

import (
	"embed"
	"strings"

	"github.com/millrace-io/millrace/schemas/shard"
)

//go:embed sql/*.sql
var texts embed.FS

// statements are the texts that name columns of a stage.
type statements struct {
	lock  string // reads rows; a condition and a lock follow
	write string // any changes
	start string // the usual ones, of which less has to be said
	done  string

	// These read and lock rows that one of the small tables names. The lock is
	// within, one row at a time, so that Postgres cannot begin with the large
	// table, whatever its statistics say.
	take, expire, due string
}

var stages = [...]statements{
	shard.EventIngest: statementsOf(shard.EventIngest),
	shard.Splitter:    statementsOf(shard.Splitter),
	shard.Worker:      statementsOf(shard.Worker),
	shard.Sender:      statementsOf(shard.Sender),
}

func statementsOf(s shard.Stage) statements {
	next := "'done'::millrace.stage_status, 0" // after the last stage nothing becomes ready
	if n, ok := s.Next(); ok {
		next = "t." + n.Column() + "_status, t." + n.Column() + "_generation"
	}
	if s == shard.EventIngest {
		return statements{lock: strings.ReplaceAll(text("lock_ingest"), "{next}", next), write: text("write_ingest")}
	}
	fill := strings.NewReplacer("{stage}", s.Column(), "{prev}", (s - 1).Column(), "{next}", next)
	lock := fill.Replace(text("lock"))
	within := func(name string) string { return strings.ReplaceAll(fill.Replace(text(name)), "{lock}", lock) }
	return statements{
		lock: lock, write: fill.Replace(text("write")), start: fill.Replace(text("write_start")), done: fill.Replace(text("write_done")),
		take: within("take"), expire: within("expire"), due: within("due"),
	}
}

// text returns a statement; the names are those of this package's own files.
func text(name string) string {
	b, err := texts.ReadFile("sql/" + name + ".sql")
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
	sqlDelay   = text("delay")
	sqlHistory = text("history")
	sqlSame    = text("history_same")
	sqlTally   = text("tally")
)

// sqlExtend, by stage.
var sqlExtend = [...]string{
	shard.Splitter: strings.ReplaceAll(text("extend"), "{stage}", shard.Splitter.Column()),
	shard.Worker:   strings.ReplaceAll(text("extend"), "{stage}", shard.Worker.Column()),
	shard.Sender:   strings.ReplaceAll(text("extend"), "{stage}", shard.Sender.Column()),
}
