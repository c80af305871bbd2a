package live

import (
	"cmp"
	"time"
)

// Config shapes a Hub. The zero value of a field stands for its default.
type Config struct {
	// Origins are the origins besides the server's own from which browsers
	// may connect, such as https://dashboard.example.com.
	Origins []string

	Connections   int // WebSockets and event streams at one time; default 10,000
	Subscriptions int // of a WebSocket; default 32
	Feeds         int // distinct views that are watched; default DefaultFeeds

	// Interval is the shortest time between two snapshots of a subscription;
	// default 100 ms.
	Interval time.Duration
	// Refresh is how often a view is computed that has not changed and has no
	// interval of its own: its window moves with the clock. It is also the
	// shortest time between two slow snapshots, but for the first change;
	// default 5 s.
	Refresh time.Duration
	// WriteTimeout closes a connection whose reader is slower; default 10 s.
	WriteTimeout time.Duration
	// PingInterval is how often a quiet event stream gets a comment, and the longest
	// time between two pings of a WebSocket; the shortest is half of it. A WebSocket
	// from which nothing has come for two of them is closed; default 30 s.
	PingInterval time.Duration
	// Compress has WebSockets use permessage-deflate for clients that offer it;
	// default false. What clients send may then be long though it came short: it is
	// bounded as what came.
	Compress bool
	// Linger is how long a feed without readers is remembered; default 1 min.
	Linger time.Duration
}

// DefaultFeeds is the default of Config.Feeds.
const DefaultFeeds = 256

// maxMessage bounds what a client sends, in bytes.
const maxMessage = 4 << 10

func (c Config) withDefaults() Config {
	c.Connections = cmp.Or(c.Connections, 10_000)
	c.Subscriptions = cmp.Or(c.Subscriptions, 32)
	c.Feeds = cmp.Or(c.Feeds, DefaultFeeds)
	c.Interval = cmp.Or(c.Interval, 100*time.Millisecond)
	c.Refresh = cmp.Or(c.Refresh, 5*time.Second)
	c.WriteTimeout = cmp.Or(c.WriteTimeout, 10*time.Second)
	c.PingInterval = cmp.Or(c.PingInterval, 30*time.Second)
	c.Linger = cmp.Or(c.Linger, time.Minute)
	return c
}
