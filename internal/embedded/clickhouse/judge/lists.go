package judge

import (
	_ "embed"
	"fmt"
	"strings"
)

//go:embed lists/functions.txt
var functionList string

//go:embed lists/aggregates.txt
var aggregateList string

//go:embed lists/combinators.txt
var combinatorList string

//go:embed lists/table_functions.txt
var tableFunctionList string

//go:embed lists/table_engines.txt
var tableEngineList string

//go:embed lists/types.txt
var typeList string

//go:embed lists/formats.txt
var formatList string

//go:embed lists/settings.txt
var settingList string

//go:embed lists/system_tables.txt
var systemTableList string

//go:embed lists/zones.txt
var zoneList string

// Verdict is what a list says about a name.
type Verdict byte

// The marks in front of the names of a list.
const (
	Unlisted Verdict = 0
	Allowed  Verdict = '+'
	Refused  Verdict = '-'
	Operator Verdict = '~' // of functions: allowed as the operator it stands for
	Limited  Verdict = '=' // of settings: allowed up to a limit
)

// Lists are the lists by kind: functions, aggregates, combinators,
// table_functions, table_engines, types, formats, settings and system_tables.
func Lists() map[string]List {
	lists := map[string]List{}
	for kind, text := range map[string]string{
		"functions": functionList, "aggregates": aggregateList, "combinators": combinatorList,
		"table_functions": tableFunctionList, "table_engines": tableEngineList, "types": typeList,
		"formats": formatList, "settings": settingList, "system_tables": systemTableList,
	} {
		lists[kind] = readList(kind, text)
	}
	return lists
}

// List sorts names of one kind.
type List map[string]Verdict

// folded finds a name in whatever case it is written.
func (l List) folded() map[string]Verdict {
	folded := map[string]Verdict{}
	for name, verdict := range l {
		lower := strings.ToLower(name)
		if before, twice := folded[lower]; twice && before != verdict {
			verdict = Refused
		}
		folded[lower] = verdict
	}
	return folded
}

// readList reads a list, which is part of the program: a broken one is a
// programming error.
func readList(kind, text string) List {
	list := List{}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		mark, name, _ := strings.Cut(line, " ")
		if len(mark) != 1 {
			panic(fmt.Sprintf("judge: list %s: %q has no mark", kind, line))
		}
		verdict := Verdict(mark[0])
		if verdict == Refused {
			name, _, _ = strings.Cut(name, " ") // a reason may follow
		}
		list[name] = verdict
	}
	return list
}
