package clickhouse

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"time"
)

// Config of a server.
type Config struct {
	Library    string // path of libchdb.so
	Path       string // data folder, made when missing
	Database   string // default database, made at start
	Name       string // that clients are shown as the server's; Database when empty
	Listen     string // native protocol; "127.0.0.1:9000" when empty
	HTTPListen string // HTTP interface; "127.0.0.1:8123" when empty
	// Listeners, when set, are served instead of listening: see [Listen].
	Listeners *Listeners

	User, Password                 string // read-write login; "default" and no password when empty
	ReadOnlyUser, ReadOnlyPassword string // analysts' login; "analyst" and no password when empty

	// Cluster makes the server a shard, for tests; nothing else sets it.
	Cluster *Cluster

	// SkipJudge runs analysts' statements without judging them. It is for tests
	// of what stands behind the judge; nothing else sets it.
	SkipJudge bool

	// MaxMemory bounds what the engine takes, in bytes; 1 GiB when 0. A query
	// beyond it fails; the server goes on.
	MaxMemory int64
	// MemorySetting is how users know MaxMemory, for errors about it; "the engine's
	// memory" when empty.
	MemorySetting string
	// MaxConnections bounds native connections, and those over HTTP; 256 when 0.
	// Analysts get three quarters of the native ones.
	MaxConnections int
	// MaxReads bounds the queries of analysts that run at one time; 64 when 0.
	// Others wait for up to 10 s.
	MaxReads int
	// MaxTime bounds every statement of the read-write login; an hour when 0.
	MaxTime time.Duration
	// MaxReadTime bounds every statement of analysts; 2 min when 0. They may lower
	// it by max_execution_time.
	MaxReadTime time.Duration
	// Patience is within what time the engine has to end a statement that was
	// cancelled or whose time is over, before the server ends with ErrStuck; 10 s
	// when 0.
	Patience time.Duration
	// Grace is what running queries have left when the server stops before they
	// are cancelled; 5 s when 0.
	Grace time.Duration
}

var identifier = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// withDefaults fills what is empty and validates what is not.
func (c Config) withDefaults() (Config, error) {
	c.Name = cmp.Or(c.Name, c.Database)
	c.MemorySetting = cmp.Or(c.MemorySetting, "the engine's memory")
	c.Listen = cmp.Or(c.Listen, "127.0.0.1:9000")
	c.HTTPListen = cmp.Or(c.HTTPListen, "127.0.0.1:8123")
	c.User = cmp.Or(c.User, "default")
	c.ReadOnlyUser = cmp.Or(c.ReadOnlyUser, "analyst")
	c.MaxMemory = cmp.Or(c.MaxMemory, 1<<30)
	c.MaxConnections = cmp.Or(c.MaxConnections, 256)
	c.MaxReads = cmp.Or(c.MaxReads, 64)
	c.MaxTime = cmp.Or(c.MaxTime, time.Hour)
	c.MaxReadTime = cmp.Or(c.MaxReadTime, 2*time.Minute)
	c.Patience = cmp.Or(c.Patience, 10*time.Second)
	c.Grace = cmp.Or(c.Grace, 5*time.Second)
	return c, c.validate()
}

// maxReaders is how many native connections analysts get.
func (c Config) maxReaders() int { return max(c.MaxConnections*3/4, 1) }

// hurryTime is what the client of a statement that is cancelled has left to read.
// The engine waits for it, and has to have some of its patience left.
func (c Config) hurryTime() time.Duration { return c.Patience / 2 }

func (c Config) validate() error {
	switch {
	case c.Library == "":
		return errors.New("clickhouse: no engine library is named")
	case c.Path == "":
		return errors.New("clickhouse: no data folder is named")
	case c.Database == "":
		return errors.New("clickhouse: no database is named")
	case !identifier.MatchString(c.Database):
		return fmt.Errorf("clickhouse: database %q: letters, digits and _ only", c.Database)
	case c.Database == "default" || c.Database == "system":
		return fmt.Errorf("clickhouse: database %q is the engine's own", c.Database)
	case c.User == c.ReadOnlyUser:
		return fmt.Errorf("clickhouse: the read-only login needs another name than %q", c.User)
	case c.MaxTime < 0 || c.MaxReadTime < 0 || c.Patience < 0 || c.Grace < 0:
		return errors.New("clickhouse: limits of time cannot be negative")
	case c.MaxMemory < 64<<20:
		return fmt.Errorf("clickhouse: %d bytes of memory are too few", c.MaxMemory)
	}
	return c.Cluster.validate()
}
