package statement

import (
	"errors"
	"strings"
	"testing"
)

func TestCheckDepth(t *testing.T) {
	between := " BETWEEN 1 AND 2"
	deep := map[string]string{
		"in brackets":              strings.Repeat("(", 40) + "1" + strings.Repeat(between+")", 40),
		"in a row":                 "1" + strings.Repeat(between, 40),
		"negated":                  strings.Repeat("(", 40) + "1" + strings.Repeat(" not Between 1 and 2)", 40),
		"in lists":                 strings.Repeat("f(1, ", 40) + "1" + strings.Repeat(between+")"+between, 40),
		"with CASE":                "1" + strings.Repeat(" BETWEEN CASE WHEN 1 AND 1 THEN 1 END AND 2", 40),
		"in subqueries":            strings.Repeat("(SELECT ", 40) + "1" + strings.Repeat(between+")"+between, 40),
		"with comments":            "1" + strings.Repeat(" BETWEEN/**/1 -- x\n AND 2", 40),
		"with a column named case": "1" + strings.Repeat(" BETWEEN t.case AND 2", 40),
		"brackets":                 strings.Repeat("(", 301),
		"arrays":                   strings.Repeat("[", 301),
		"brackets of all kinds":    strings.Repeat("([{", 101),
	}
	for name, text := range deep {
		if err := CheckDepth("SELECT " + text); !errors.Is(err, ErrDeep) {
			t.Errorf("%s: %v", name, err)
		}
	}
	flat := map[string]string{
		"conditions":    "1" + strings.Repeat(" AND a BETWEEN 1 AND 2", 200),
		"alternatives":  "1" + strings.Repeat(" OR a BETWEEN 1 AND 2", 200),
		"columns":       "1" + strings.Repeat(", a BETWEEN 1 AND 2 AS b", 200),
		"in brackets":   "1" + strings.Repeat(" AND (a BETWEEN 1 AND 2 OR b BETWEEN 1 AND 2)", 200),
		"cases":         "CASE" + strings.Repeat(" WHEN a BETWEEN 1 AND 2 AND b BETWEEN 2 AND 3 THEN 1", 200) + " END",
		"one in itself": "((a BETWEEN 1 AND 2) BETWEEN 0 AND 1) BETWEEN 0 AND 1",
		"strings":       "'" + strings.Repeat("(", 1000) + strings.Repeat("1 BETWEEN ", 100) + "'",
		"brackets":      strings.Repeat("(", 200) + "1" + strings.Repeat(")", 200),
		"many brackets": strings.Repeat("(1), ", 1000) + "1",
		"unbalanced":    strings.Repeat(")", 1000) + strings.Repeat(" END", 1000),
	}
	for name, text := range flat {
		if err := CheckDepth("SELECT " + text); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
