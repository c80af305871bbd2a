package feed_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/millrace-io/millrace/internal/embedded/embeddedtest"
	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/internal/queue/feed"
	"github.com/millrace-io/millrace/internal/slowtest"
	"github.com/millrace-io/millrace/internal/userqueue"
	"github.com/millrace-io/millrace/schemas/item"
)

var engine embeddedtest.Postgres

// killedDSN has a process of this test feed until it is killed.
const killedDSN = "MILLRACE_TEST_FEED_DSN"

func TestMain(m *testing.M) {
	if dsn := os.Getenv(killedDSN); dsn != "" {
		if err := feedUntilKilled(dsn); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(engine.Main(m))
}

// system is the tables of a system.
const system = `CREATE SCHEMA own;
CREATE TABLE own.grp (name text PRIMARY KEY, paused boolean NOT NULL DEFAULT false);
CREATE TABLE own.row (
	id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, grp text NOT NULL, payload text NOT NULL,
	state text NOT NULL DEFAULT 'waiting', item_id bigint UNIQUE, fault text, fed integer NOT NULL DEFAULT 0
);
CREATE INDEX ON own.row (grp, id) WHERE state = 'waiting';`

const window = 7

func config() feed.Config {
	return feed.Config{Name: "test", Queue: "mail", Window: window, Every: 5 * time.Millisecond, SQL: feed.SQL{
		Groups: "SELECT name FROM own.grp AS g WHERE NOT paused AND EXISTS " +
			"(SELECT FROM own.row WHERE grp = g.name AND state = 'waiting')",
		Next: "SELECT id::text, payload, 3::smallint FROM own.row WHERE grp = $1 AND state = 'waiting' " +
			"ORDER BY id LIMIT $2 FOR UPDATE",
		Fed: `UPDATE own.row AS r SET fed = fed + 1, item_id = u.item, fault = u.fault,
			state = CASE WHEN u.item IS NULL THEN 'refused' ELSE 'new' END
			FROM unnest($1::text[], $2::bigint[], $3::text[]) AS u (id, item, fault) WHERE r.id = u.id::bigint`,
	}, Moved: moved}
}

func moved(_ context.Context, t *queue.Tx, changes []queue.Change) error {
	for _, c := range changes {
		t.Batch.Queue("UPDATE own.row SET state = $2 WHERE item_id = $1", c.ID, feed.Status(c))
	}
	return nil
}

func open(pool *pgxpool.Pool, log *slog.Logger) (*feed.Feed, *userqueue.Store, error) {
	queues, err := queue.New(queue.Config{Kinds: []queue.Kind{&userqueue.Kind{}}}, pool, log)
	if err != nil {
		return nil, nil, err
	}
	own, err := userqueue.New(queues)
	if err != nil {
		return nil, nil, err
	}
	f, err := feed.New(config(), own, log)
	return f, own, err
}

// site is a database with a system and its queue.
type site struct {
	*testing.T
	r    *rand.Rand
	pool *pgxpool.Pool
	feed *feed.Feed
	own  *userqueue.Store
	q    queue.ID
}

func start(t *testing.T, pool *pgxpool.Pool) *site {
	t.Helper()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	s := &site{T: t, r: rand.New(rand.NewPCG(seed, 1)), pool: pool}
	s.exec(system)
	var err error
	if s.feed, s.own, err = open(pool, embeddedtest.Log(t)); err != nil {
		t.Fatal(err)
	}
	v := queue.Settings{Name: "mail", LeaseS: 30, RetentionS: 3600, MaxItems: 100_000, MaxAttempts: 1}
	if _, err := s.own.Create(t.Context(), v); err != nil {
		t.Fatal(err)
	}
	if v, err = s.own.Get(t.Context(), "mail"); err != nil {
		t.Fatal(err)
	}
	s.q = v.ID
	return s
}

func (s *site) exec(sql string, args ...any) {
	s.Helper()
	if _, err := s.pool.Exec(s.Context(), sql, args...); err != nil {
		s.Fatal(err)
	}
}

func (s *site) number(sql string, args ...any) (n int) {
	s.Helper()
	if err := s.pool.QueryRow(s.Context(), sql, args...).Scan(&n); err != nil {
		s.Fatal(err)
	}
	return n
}

func (s *site) group() string { return fmt.Sprintf("g%d", s.r.IntN(5)) }

// add adds rows of a group.
func (s *site) add(group string, rows int) {
	s.Helper()
	s.exec("INSERT INTO own.grp (name) VALUES ($1) ON CONFLICT DO NOTHING", group)
	s.exec("INSERT INTO own.row (grp, payload) SELECT $1, to_json(n)::text FROM generate_series(1, $2::integer) AS n",
		group, rows)
}

// move moves some items that are in a status.
func (s *site) move(move item.Move, status string, most int) {
	s.Helper()
	rows, err := s.pool.Query(s.Context(), "SELECT id FROM millrace.item WHERE status = $1::millrace.stage_status "+
		"ORDER BY random() LIMIT $2", status, s.r.IntN(most+1))
	if err != nil {
		s.Fatal(err)
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	if err != nil {
		s.Fatal(err)
	}
	commands := make([]queue.Command, len(ids))
	for i, id := range ids {
		commands[i] = queue.Command{ID: id}
	}
	if _, err := s.own.Queues().Apply(s.Context(), s.q, move, commands); err != nil {
		s.Fatal(err)
	}
}

// pause pauses a group, or ends its pause.
func (s *site) pause(group string, paused bool) {
	s.Helper()
	err := s.feed.Change(s.Context(), "pause", func(t *queue.Tx) error {
		t.Batch.Queue("UPDATE own.grp SET paused = $2 WHERE name = $1", group, paused)
		return nil
	})
	if err != nil {
		s.Fatal(err)
	}
}

func (s *site) cancel(group string) {
	s.Helper()
	err := s.feed.Change(s.Context(), "cancel", func(t *queue.Tx) error {
		t.Batch.Queue("UPDATE own.row SET state = 'dropped' WHERE grp = $1 AND state = 'waiting'", group)
		_, _, err := s.own.CancelIn(s.Context(), t, s.q, group, "test", 0, userqueue.MaxLive)
		return err
	})
	if err != nil {
		s.Fatal(err)
	}
}

// counted are the rows of a group.
type counted struct{ live, waiting, fed int }

func (s *site) counts() map[string]counted {
	s.Helper()
	rows, err := s.pool.Query(s.Context(), `SELECT grp, count(*) FILTER (WHERE state IN ('new', 'started')),
		count(*) FILTER (WHERE state = 'waiting'), sum(fed) FROM own.row GROUP BY grp`)
	if err != nil {
		s.Fatal(err)
	}
	all := map[string]counted{}
	var name string
	var c counted
	_, err = pgx.ForEachRow(rows, []any{&name, &c.live, &c.waiting, &c.fed}, func() error { all[name] = c; return nil })
	if err != nil {
		s.Fatal(err)
	}
	return all
}

// sound holds that rows and items are as the promise says (1).
func (s *site) sound() {
	s.Helper()
	for what, sql := range map[string]string{
		"rows that became two items": "SELECT count(*) FROM own.row WHERE fed > 1",
		"rows that wait and have become items": "SELECT count(*) FROM own.row WHERE (fed > 0) <> " +
			"(state NOT IN ('waiting', 'dropped'))",
		"items of no row": `SELECT count(*) FROM millrace.item AS i LEFT JOIN own.row AS r ON r.item_id = i.id
			WHERE r.id IS NULL OR r.payload <> i.payload::text OR r.grp <> i."group"`,
		"rows that are not as their items": `SELECT count(*) FROM own.row AS r
			LEFT JOIN millrace.item AS i ON i.id = r.item_id LEFT JOIN millrace.failed AS f ON f.item_id = i.id
			WHERE r.item_id IS NOT NULL AND r.state IS DISTINCT FROM CASE
				WHEN i.cancelled THEN 'cancelled' WHEN f.dead THEN 'dead' ELSE i.status::text END`,
	} {
		if n := s.number(sql); n != 0 {
			s.Errorf("%d %s", n, what)
		}
	}
}

// TestHistories (1, 2, 3, 4): whatever happens, feeding fills the window, from the groups
// that may be fed, and fairly.
func TestHistories(t *testing.T) {
	t.Parallel()
	s := start(t, engine.Pool(t, queue.Configure))
	for g := range 5 {
		s.add(fmt.Sprint("g", g), 1)
	}
	paused := map[string]bool{}
	for range 150 {
		group := s.group()
		switch s.r.IntN(8) {
		case 0, 1:
			s.add(group, 1+s.r.IntN(12))
		case 2, 3:
			s.move(item.Start, "new", window)
		case 4:
			s.move(item.Complete, "started", window)
		case 5:
			s.move(item.Fail, "started", window)
		case 6:
			paused[group] = !paused[group]
			s.pause(group, paused[group])
		case 7:
			if s.r.IntN(4) == 0 {
				s.cancel(group)
				if c := s.counts()[group]; c.live+c.waiting > 0 {
					t.Fatalf("%s was cancelled: %+v", group, c)
				}
			}
		}
		s.fill(paused)
		s.sound()
	}
}

// fill feeds until nothing is fed, and compares.
func (s *site) fill(paused map[string]bool) {
	s.Helper()
	before := s.counts()
	for fed := -1; fed != 0; {
		var err error
		if fed, err = s.feed.Step(s.Context()); err != nil {
			s.Fatal(err)
		}
	}
	after, live := s.counts(), 0
	for _, c := range after {
		live += c.live
	}
	if live > window {
		s.Errorf("%d items in a window of %d", live, window)
	}
	for a, of := range after {
		switch {
		case paused[a] && of.fed > before[a].fed:
			s.Errorf("%s was fed, and is paused", a)
		case !paused[a] && of.waiting > 0 && live < window:
			s.Errorf("rows of %s wait, and the window has %d items: %+v", a, live, after)
		}
		for b, other := range after {
			if !paused[a] && of.waiting > 0 && other.fed > before[b].fed && other.live > of.live+1 {
				s.Errorf("%s got more than its share before %s: %+v, before %+v", b, a, after, before)
			}
		}
	}
}

// TestTurns (4): of more groups than the window has room for, each has its turn.
func TestTurns(t *testing.T) {
	t.Parallel()
	s := start(t, engine.Pool(t, queue.Configure))
	const groups = 3 * window
	for i := range groups {
		s.add(fmt.Sprint("g", i), 20)
	}
	for range 3 {
		s.fill(nil)
		for _, move := range []struct {
			item.Move
			from string
		}{{item.Start, "new"}, {item.Complete, "started"}} {
			for s.number("SELECT count(*) FROM millrace.item WHERE status = $1::millrace.stage_status", move.from) > 0 {
				s.move(move.Move, move.from, window)
			}
		}
	}
	for name, c := range s.counts() {
		if c.fed != 1 {
			t.Errorf("%s was fed %d times in three rounds", name, c.fed)
		}
	}
}

// TestRefused (5): a row that no item can hold says why, and the next ones are fed.
func TestRefused(t *testing.T) {
	t.Parallel()
	s := start(t, engine.Pool(t, queue.Configure))
	s.exec("INSERT INTO own.grp (name) VALUES ('g')")
	for _, payload := range []string{`{"a":`, strings.Repeat("1", userqueue.MaxPayload+1), `"\u0000"`, "1"} {
		s.exec("INSERT INTO own.row (grp, payload) VALUES ('g', $1)", payload)
	}
	s.fill(nil)
	var faults string
	if err := s.pool.QueryRow(t.Context(), "SELECT string_agg(coalesce(fault, state), '; ' ORDER BY id) FROM own.row").
		Scan(&faults); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"payload: must be JSON", "payload: must be at most 65536 bytes", `\u0000`, "; new"} {
		if !strings.Contains(faults, want) {
			t.Errorf("%q is not in %s", want, faults)
		}
	}
}

// feedUntilKilled is a process that feeds.
func feedUntilKilled(dsn string) error {
	cfg, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		return err
	}
	queue.Configure(cfg)
	pool, err := pgxpool.NewWithConfig(context.Background(), cfg)
	if err != nil {
		return err
	}
	f, _, err := open(pool, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	return f.Run(context.Background())
}

// TestKilled (1, 2, 3): processes that feed the same rows, and are killed at any point,
// feed each row once, and none of a group that is paused or cancelled.
func TestKilled(t *testing.T) {
	slowtest.Mark(t)
	t.Parallel()
	dsn := engine.DSN(t)
	cfg, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	queue.Configure(cfg)
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	s := start(t, pool)
	feeders := make([]*exec.Cmd, 2)
	for i := range feeders {
		feeders[i] = s.feeder(dsn)
	}
	for range 60 {
		for g := range 5 {
			s.add(fmt.Sprint("g", g), s.r.IntN(6))
		}
		s.move(item.Start, "new", window)
		s.move(item.Complete, "started", window)
		if group := s.group(); s.r.IntN(4) == 0 {
			s.pause(group, true)
			before := s.counts()[group]
			s.move(item.Start, "new", window)
			s.move(item.Complete, "started", window)
			s.until(func() bool {
				return s.number("SELECT count(*) FROM own.row WHERE state IN ('new', 'started')") == window ||
					s.number("SELECT count(*) FROM own.row WHERE state = 'waiting' AND grp <> $1", group) == 0
			})
			if after := s.counts()[group]; after.fed > before.fed {
				t.Errorf("%s was fed, and is paused: %+v after %+v", group, after, before)
			}
			s.pause(group, false)
		} else if s.r.IntN(8) == 0 {
			s.cancel(group)
			if c := s.counts()[group]; c.waiting > 0 {
				t.Errorf("%s was cancelled: %+v", group, c)
			}
		}
		if n := s.number("SELECT count(*) FROM own.row WHERE state IN ('new', 'started')"); n > window {
			t.Errorf("%d items in a window of %d", n, window)
		}
		s.sound()
		if i := s.r.IntN(2 * len(feeders)); i < len(feeders) {
			s.kill(feeders[i])
			feeders[i] = s.feeder(dsn)
		}
	}
	s.until(func() bool {
		s.move(item.Start, "new", window)
		s.move(item.Complete, "started", window)
		return s.number("SELECT count(*) FROM own.row WHERE state IN ('waiting', 'new', 'started')") == 0
	})
	s.sound()
	t.Logf("%d rows became items", s.number("SELECT count(*) FROM own.row WHERE fed = 1"))
}

func (s *site) feeder(dsn string) *exec.Cmd {
	s.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), killedDSN+"="+dsn)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { s.kill(cmd) })
	return cmd
}

func (s *site) kill(cmd *exec.Cmd) {
	_ = cmd.Process.Kill() // or it was killed before
	_ = cmd.Wait()
}

func (s *site) until(done func() bool) {
	s.Helper()
	for end := time.Now().Add(2 * time.Minute); !done(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			s.Fatal("it does not come to an end")
		}
	}
}

// TestApart (2): a group is not paused while it is being fed.
func TestApart(t *testing.T) {
	t.Parallel()
	s := start(t, engine.Pool(t, queue.Configure))
	s.add("g", 3)
	other, err := s.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.Exec(t.Context(), "SELECT FROM own.row FOR UPDATE"); err != nil {
		t.Fatal(err)
	}
	wait := func(want int) bool {
		return s.number(`SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND wait_event_type = 'Lock'`) == want
	}
	fed, paused := make(chan error, 1), make(chan struct{})
	go func() {
		_, err := s.feed.Step(t.Context())
		fed <- err
	}()
	s.until(func() bool { return wait(1) })
	go func() {
		defer close(paused)
		s.pause("g", true)
	}()
	s.until(func() bool {
		select {
		case <-paused:
			t.Error("the group is paused, and being fed")
			return true
		default:
			return wait(2)
		}
	})
	if err := other.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-fed; err != nil {
		t.Fatal(err)
	}
	<-paused
	s.sound()
	if c := s.counts()["g"]; c.fed != 3 {
		t.Errorf("%+v", c)
	}
	s.add("g", 3)
	s.fill(map[string]bool{"g": true})
}
