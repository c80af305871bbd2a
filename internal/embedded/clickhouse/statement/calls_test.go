package statement

import (
	"slices"
	"testing"
)

func TestReplaceCalls(t *testing.T) {
	for text, want := range map[string]string{
		"SELECT f()":                                     "SELECT ('x' AS `f()`)",
		"SELECT F ( ) AS a, g(f()), f(1)":                "SELECT 'x' AS a, g(('x' AS `f()`)), f(1)",
		"SELECT f() `a`, f() b FROM t":                   "SELECT 'x' `a`, 'x' b FROM t",
		"SELECT 'f()', `f`() FROM f WHERE a = f() AND b": "SELECT 'f()', `f`() FROM f WHERE a = ('x' AS `f()`) AND b",
	} {
		if got := ReplaceCalls(text, map[string]string{"f": "'x'"}); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

func TestDatabases(t *testing.T) {
	for text, want := range map[string][]string{
		"DROP DATABASE IF EXISTS `a b` SYNC":     {"IF", "EXISTS", "a b", "SYNC"},
		"detach /* x */ database {d:Identifier}": {"default", "Identifier"},
		"DROP TABLE default":                     nil,
		"RENAME DATABASE \"default\" TO other":   {"default", "TO", "other"},
		"CREATE DATABASE default":                nil,
		"DROP DATABASE a -- default\n":           {"a"},
	} {
		s, err := Parse(text)
		if got := s.Databases(map[string]string{"d": "default"}); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %q, %v", text, got, err)
		}
	}
}

func TestHasTotals(t *testing.T) {
	for text, want := range map[string]bool{
		"SELECT a FROM t GROUP BY a with /* x */ totals": true, "SELECT 1 SETTINGS extremes = 1": true,
		"SELECT totals FROM t": false, "SELECT 'WITH TOTALS'": false, "SELECT 1 -- extremes": false,
	} {
		if s, err := Parse(text); err != nil || s.HasTotals() != want {
			t.Errorf("%s: %v, %v", text, s.HasTotals(), err)
		}
	}
}
