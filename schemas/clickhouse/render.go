package clickhouse

import (
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"strings"
	"testing/fstest"
)

// shards says by what the rows of a table are spread over a cluster. Tables
// that are not named here are spread by their sorting key, so that rows which
// replace one another meet. A repeated insert must go where it went before,
// for its deduplication token to be known there.
var shards = map[string]string{
	"events":        "cityHash64(article_hash)",
	"item_outcomes": "cityHash64(job_id, batch_index)",
	"item_errors":   "cityHash64(job_id, batch_index)",
	"item_analyses": "cityHash64(job_id, batch_index)",
}

// render rewrites the migrations for a topology. On a single server they are run
// as they are written.
func (t Topology) render(migrations fs.FS) (fs.FS, error) {
	if t.Cluster == "" {
		return migrations, nil
	}
	names, err := fs.Glob(migrations, "*.sql")
	if err != nil {
		return nil, fmt.Errorf("list migrations: %w", err)
	}
	out := fstest.MapFS{}
	for _, name := range names {
		text, err := fs.ReadFile(migrations, name)
		if err != nil {
			return nil, fmt.Errorf("read migration %s: %w", name, err)
		}
		rendered, err := t.renderFile(string(text))
		if err != nil {
			return nil, fmt.Errorf("migration %s: %w", name, err)
		}
		out[name] = &fstest.MapFile{Data: []byte(rendered), Mode: 0o444}
	}
	return out, nil
}

// shardsJoin marks a view that joins tables by the key that spreads them over the shards. On a cluster, each shard
// then joins its own rows.
const shardsJoin = "-- +shards join"

// renderFile rewrites each statement of a migration. Statements end with a
// semicolon at the end of a line.
func (t Topology) renderFile(text string) (string, error) {
	var out, statement strings.Builder
	rewrite := t.statements
	for line := range strings.Lines(text) {
		if trimmed := strings.TrimSpace(line); strings.HasPrefix(trimmed, "--") ||
			(trimmed == "" && statement.Len() == 0) {
			if trimmed == shardsJoin {
				rewrite = t.joinedByShard
			}
			out.WriteString(line)
			continue
		}
		statement.WriteString(line)
		if !strings.HasSuffix(strings.TrimSpace(line), ";") {
			continue
		}
		for i, s := range rewrite(strings.TrimSuffix(strings.TrimSpace(statement.String()), ";")) {
			if s == "" {
				return "", fmt.Errorf("%w: %.60q", errStatement, statement.String())
			}
			if i > 0 {
				out.WriteByte('\n')
			}
			out.WriteString(s + ";\n")
		}
		statement.Reset()
		rewrite = t.statements
	}
	if strings.TrimSpace(statement.String()) != "" {
		return "", fmt.Errorf("%w: it has no end: %.60q", errStatement, statement.String())
	}
	return out.String(), nil
}

var errStatement = errors.New("a statement can't be rewritten for a cluster")

var (
	createTable = regexp.MustCompile(
		`(?s)^CREATE TABLE (?:IF NOT EXISTS )?(\w+)\s*(\(.*\n\))\s*ENGINE = (\w+)(?:\((.*?)\))?(\s.*)?$`,
	)
	createView  = regexp.MustCompile(`(?s)^CREATE (OR REPLACE )?VIEW (?:IF NOT EXISTS )?(\w+)(\s.*)$`)
	readTable   = regexp.MustCompile(`\b(?:FROM|JOIN) \w+`)
	drop        = regexp.MustCompile(`^DROP (TABLE|VIEW) (?:IF EXISTS )?(\w+)$`)
	alter       = regexp.MustCompile(`(?s)^ALTER TABLE (\w+)(\s.*)$`)
	columnsOnly = regexp.MustCompile(`(?s)^\s*(ADD|DROP|MODIFY|RENAME|COMMENT) COLUMN\s`)
	modifyOrder = regexp.MustCompile(`(?s),\s*MODIFY ORDER BY \(.*?\)`)
	sortingKey  = regexp.MustCompile(`(?s)ORDER BY \((.*?)\)`)
)

// statements returns what takes the place of a statement on a cluster. An
// empty one says that it is not known how.
func (t Topology) statements(s string) []string {
	on := t.OnCluster()
	if m := createTable.FindStringSubmatch(s); m != nil {
		return t.tables(m[1], m[2], m[3], m[4], m[5])
	}
	if m := createView.FindStringSubmatch(s); m != nil {
		if m[1] != "" {
			return []string{"CREATE OR REPLACE VIEW " + m[2] + on + m[3]}
		}
		return []string{"CREATE VIEW IF NOT EXISTS " + m[2] + on + m[3]}
	}
	if m := drop.FindStringSubmatch(s); m != nil {
		all := []string{fmt.Sprintf("DROP %s IF EXISTS %s%s", m[1], m[2], on)}
		if m[1] == "TABLE" {
			all = append(all, fmt.Sprintf("DROP TABLE IF EXISTS %s%s SYNC", t.Local(m[2]), on))
		}
		return all
	}
	if m := alter.FindStringSubmatch(s); m != nil {
		all := []string{fmt.Sprintf("ALTER TABLE %s%s%s", t.Local(m[1]), on, m[2])}
		if columnsOnly.MatchString(m[2]) {
			all = append(all, fmt.Sprintf("ALTER TABLE %s%s%s", m[1], on, modifyOrder.ReplaceAllString(m[2], "")))
		}
		return all
	}
	if strings.HasPrefix(s, "INSERT INTO ") {
		return []string{s}
	}
	return []string{""}
}

// joinedByShard creates the view on each server, over the local tables, and a distributed table over these views under
// the name of the view. The table replaces a view that has the name.
func (t Topology) joinedByShard(s string) []string {
	m := createView.FindStringSubmatch(s)
	if m == nil {
		return []string{""}
	}
	local := t.Local(m[2])
	body := readTable.ReplaceAllStringFunc(strings.ReplaceAll(m[3], "GLOBAL ", ""), t.Local)
	return []string{
		"CREATE OR REPLACE VIEW " + local + t.OnCluster() + body,
		fmt.Sprintf("CREATE OR REPLACE TABLE %s%s AS %s\nENGINE = Distributed(%s, currentDatabase(), %s)",
			m[2], t.OnCluster(), local, quoteText(t.Cluster), quoteText(local)),
	}
}

// tables creates a table on each server, and a distributed one over
// them under the name.
func (t Topology) tables(name, columns, engine, args, rest string) []string {
	key, known := shards[name]
	if !known {
		order := sortingKey.FindStringSubmatch(rest)
		if order == nil || engine == "MergeTree" {
			return []string{""}
		}
		key = "cityHash64(" + order[1] + ")"
	}
	if args != "" {
		args = "(" + args + ")"
	}
	if t.replicated() {
		engine = "Replicated" + engine
		rest = strings.ReplaceAll(rest, "non_replicated_deduplication_window", "replicated_deduplication_window")
	}
	local := t.Local(name)
	return []string{
		fmt.Sprintf("CREATE TABLE IF NOT EXISTS %s%s\n%s\nENGINE = %s%s%s", local, t.OnCluster(), columns,
			engine, args, rest),
		fmt.Sprintf("CREATE TABLE IF NOT EXISTS %s%s AS %s\nENGINE = Distributed(%s, currentDatabase(), %s, %s)",
			name, t.OnCluster(), local, quoteText(t.Cluster), quoteText(local), key),
	}
}
