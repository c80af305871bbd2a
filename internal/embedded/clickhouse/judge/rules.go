package judge

import (
	"maps"
	"slices"
	"strings"
)

// Rules are what the read-only login may do with one engine.
type Rules struct {
	database     string             // the installation's own
	functions    map[string]Verdict // exact names of functions and aggregate functions
	folded       map[string]Verdict // the same in lower case
	aggregates   map[string]Verdict // in lower case
	combinators  []string
	tables       map[string]Verdict // table functions, in lower case
	types        map[string]Verdict // in lower case
	formats      map[string]Verdict // in lower case
	settings     List
	systemTables List
}

// New makes the rules for an engine that has these functions. Those that are on
// no list are refused, wherever their names stand.
func New(database string, functions []string) *Rules {
	lists := Lists()
	all := List{}
	for _, kind := range []string{"functions", "aggregates"} {
		maps.Copy(all, lists[kind])
	}
	r := &Rules{
		database: database, functions: all, aggregates: lists["aggregates"].folded(),
		tables: lists["table_functions"].folded(),
		types:  lists["types"].folded(), formats: lists["formats"].folded(), settings: lists["settings"],
		systemTables: lists["system_tables"],
	}
	for suffix, verdict := range lists["combinators"] {
		if verdict == Allowed {
			r.combinators = append(r.combinators, suffix)
		}
	}
	slices.Sort(r.combinators)
	for _, name := range functions {
		if all[name] == Unlisted && !r.aggregate(name) {
			all[name] = Refused
		}
	}
	r.folded = all.folded()
	return r
}

// Setting tells whether a setting may be changed.
func (r *Rules) Setting(name string) Verdict { return r.settings[name] }

// Format judges the format of a result.
func (r *Rules) Format(name string) error {
	if r.formats[strings.ToLower(name)] != Allowed {
		return refuse("format %s", name)
	}
	return nil
}

// readVerbs begin the statements of the read-only login.
var readVerbs = []string{"SELECT", "SHOW", "DESCRIBE", "DESC", "EXPLAIN", "EXISTS", "SET", "USE"}

// Reads tells whether statements that begin so may be judged at all.
func Reads(verb string) bool { return slices.Contains(readVerbs, verb) }

// function is the verdict about the name of a function or an aggregate function.
func (r *Rules) function(name string) Verdict {
	if verdict := r.functions[name]; verdict != Unlisted {
		return verdict
	}
	if verdict := r.folded[strings.ToLower(name)]; verdict != Unlisted {
		return verdict
	}
	if r.aggregate(name) {
		return Allowed
	}
	return Unlisted
}

// maxCombinators of one aggregate function are more than anybody needs.
const maxCombinators = 8

// aggregate tells whether name is an allowed aggregate function, with or without
// combinators.
func (r *Rules) aggregate(name string) bool { return r.combined(name, maxCombinators) }

func (r *Rules) combined(name string, left int) bool {
	if verdict := r.aggregates[strings.ToLower(name)]; verdict != Unlisted {
		return verdict == Allowed
	}
	for _, suffix := range r.combinators {
		if base, ok := strings.CutSuffix(name, suffix); ok && left > 0 && r.combined(base, left-1) {
			return true
		}
	}
	return false
}

// Table is a table named with its database, or all of the database without a name.
type Table struct{ Database, Name string }

// ownDatabases are those of the engine whose tables are files or of other
// sessions.
var ownDatabases = []string{"default", "_temporary_and_external_tables"}

// Known judges a table of a database that the rules know, and tells whether it is
// one. It is for the engine to say of other databases what they are.
func (r *Rules) Known(t Table) (bool, error) {
	database := strings.ToLower(t.Database)
	switch {
	case slices.Contains(ownDatabases, database):
		return true, refuse("database %s", t.Database)
	case database == "system" && t.Name != "" && r.systemTables[t.Name] != Allowed:
		return true, refuse("table system.%s", t.Name)
	}
	return t.Database == r.database || database == "system" || database == "information_schema", nil
}
