package judge

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// call is an open parenthesis and what is known about the call that it belongs
// to, if it is one.
type call struct {
	name     string
	rule     *rule
	index    int  // of the argument
	start    int  // token at which the argument begins
	brackets int  // that are open in it
	written  bool // the first argument is the name of toString
}

// rule says which arguments of a function name something by a string.
type rule struct {
	indexes []int // of the arguments, from 0
	last    bool  // the last one, if it is not the only one
	zone    bool  // it is a time zone; in its place may be a number, too
	judge   func(*Rules, string) error
}

var (
	secondIsType     = &rule{indexes: []int{1}, judge: (*Rules).typeName}
	lastIsType       = &rule{last: true, judge: (*Rules).typeName}
	firstIsAggregate = &rule{indexes: []int{0}, judge: (*Rules).aggregateName}
	firstIsFormat    = &rule{indexes: []int{0}, judge: (*Rules).Format}
)

// rules are by the names of functions in lower case. No function may be missing
// that takes the name of a type, a structure, an aggregate function, a format or
// a time zone.
var rules = withZones(map[string]*rule{
	"cast": secondIsType, "accuratecast": secondIsType,
	"accuratecastornull": secondIsType, "accuratecastordefault": secondIsType,
	"reinterpret": secondIsType, "dynamicelement": secondIsType, "variantelement": secondIsType,
	"defaultvalueoftypename": {indexes: []int{0}, judge: (*Rules).typeName},
	"jsonextract":            lastIsType, "jsonextractcaseinsensitive": lastIsType,
	"jsonextractkeysandvalues": lastIsType, "jsonextractkeysandvaluescaseinsensitive": lastIsType,
	"arrayreduce": firstIsAggregate, "arrayreduceinranges": firstIsAggregate, "initializeaggregation": firstIsAggregate,
	"formatrow": firstIsFormat, "formatrownonewline": firstIsFormat,
	"format": {indexes: []int{0}, judge: (*Rules).pattern},
	"values": {indexes: []int{0}, judge: (*Rules).structure},
})

// withZones adds the functions that take a time zone.
func withZones(rules map[string]*rule) map[string]*rule {
	for line := range strings.Lines(zoneList) {
		fields := strings.Fields(line)
		if len(fields) == 0 || fields[0] == "#" {
			continue
		}
		r := &rule{zone: true, judge: func(_ *Rules, s string) error { return TimeZone(s) }}
		for _, f := range fields[1:] {
			index, err := strconv.Atoi(f)
			if err != nil {
				panic("judge: list zones: " + line)
			}
			r.indexes = append(r.indexes, index)
		}
		rules[strings.ToLower(fields[0])] = r
	}
	return rules
}

var zoneName = regexp.MustCompile(`^[A-Za-z0-9_+-]+(/[A-Za-z0-9_+-]+)*$`)

// TimeZone judges the name of a time zone.
func TimeZone(s string) error {
	if !zoneName.MatchString(s) {
		return refuse("the time zone %q", s)
	}
	return nil
}

// literalOnly is the rule of a function that has no use without its string, and
// whose name is no common name of a column.
func literalOnly(function string) *rule {
	function = strings.ToLower(function)
	if r := rules[function]; r != nil && !r.zone && function != "format" && function != "values" {
		return r
	}
	return nil
}

// aggregateName judges "sum" and "quantile(0.5)".
func (r *Rules) aggregateName(s string) error {
	tokens, err := lex(s)
	if err != nil || len(tokens) == 0 || tokens[0].kind != word || !r.aggregate(tokens[0].text) {
		return refuse("aggregate function %s", s)
	}
	for i, t := range tokens[1:] {
		open, end := i == 0, i == len(tokens)-2
		if t.is("(") != open || t.is(")") != end || t.names() || t.kind == param {
			return refuse("aggregate function %s", s)
		}
	}
	return nil
}

// pattern judges the first argument of format, which is a pattern and not, as of
// the table function of that name, a format.
func (r *Rules) pattern(s string) error {
	if !strings.Contains(s, "{") {
		return refuse("format without a pattern")
	}
	return nil
}

// entered is the call of the parenthesis at i.
func (j *reading) entered(i int) call {
	c := call{start: i + 1}
	if t := j.at(i - 1); t.names() {
		c.name, c.rule = t.text, rules[strings.ToLower(t.text)]
	}
	return c
}

// literal judges the argument that ends at i by the rule of its function.
func (j *reading) literal(c *call, i int, last bool) error {
	r, a, single := c.rule, j.at(c.start), i == c.start+1
	switch {
	case r == nil || i == c.start, !slices.Contains(r.indexes, c.index) && (!r.last || !last || c.index == 0):
		return nil
	case single && a.kind == text:
		return r.judge(j.rules, a.text)
	case single && r.zone && a.kind == number:
		return nil
	}
	return refuseHint("write it as a string", "a computed argument of function %s", c.name)
}

// argument judges what ends at the comma or bracket at i.
func (j *reading) argument(i int) error {
	t := j.at(i)
	if len(j.calls) == 0 {
		if t.is(")") {
			return refuse("a parenthesis without its begin")
		}
		return nil
	}
	c := &j.calls[len(j.calls)-1]
	switch {
	case t.is("["):
		c.brackets++
		return nil
	case t.is("]"):
		c.brackets--
		return nil
	case t.is(",") && c.brackets > 0:
		return nil
	}
	last := t.is(")")
	if err := j.literal(c, i, last); err != nil {
		return err
	}
	// toString alone takes a time zone that is not constant.
	if j.at(c.start).names() && i == c.start+1 && c.index == 0 {
		c.written = strings.EqualFold(j.at(c.start).text, "toString")
	}
	if c.written && c.index > 1 {
		return refuseHint("write a lambda", "function toString as an argument")
	}
	c.index, c.start = c.index+1, i+1
	if last {
		j.calls = j.calls[:len(j.calls)-1]
	}
	return nil
}
