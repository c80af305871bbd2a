package judge

import (
	"strings"
)

// types reads names of types, and structures made of them, by a grammar that has
// no place for an expression.
type types struct {
	known  map[string]Verdict // by names in lower case
	tokens []token
}

// typeName judges the name of a type.
func (r *Rules) typeName(s string) error {
	t, err := r.readTypes(s)
	if err == nil {
		err = t.typ()
	}
	return t.all(err, "the type", s)
}

// structure judges "name Type, …".
func (r *Rules) structure(s string) error {
	t, err := r.readTypes(s)
	for err == nil {
		if !t.peek(0).names() {
			err = refuse("no name")
			break
		}
		t.skip()
		if err = t.typ(); err != nil || !t.accept(",") {
			break
		}
	}
	return t.all(err, "the structure", s)
}

func (r *Rules) readTypes(s string) (*types, error) {
	tokens, err := lex(s)
	return &types{r.types, tokens}, err
}

// all is nil when everything was read.
func (t *types) all(err error, what, s string) error {
	if err == nil && len(t.tokens) == 0 {
		return nil
	}
	if len(s) > 100 {
		s = s[:100] + "…"
	}
	return refuseHint("write names and types only", "%s %q", what, s)
}

func (t *types) peek(i int) token {
	if i < len(t.tokens) {
		return t.tokens[i]
	}
	return token{kind: nothing}
}

func (t *types) skip() { t.tokens = t.tokens[1:] }

func (t *types) accept(s string) bool {
	if !t.peek(0).is(s) {
		return false
	}
	t.skip()
	return true
}

// words are the words in front.
func (t *types) words() []string {
	var words []string
	for i := 0; i < 8 && t.peek(i).kind == word; i++ {
		words = append(words, t.peek(i).text)
	}
	return words
}

func (t *types) isType(words []string) bool {
	return t.known[strings.ToLower(strings.Join(words, " "))] == Allowed
}

// typ reads a type.
func (t *types) typ() error {
	words := t.words()
	if !t.isType(words) {
		return refuse("a type")
	}
	enum := strings.HasPrefix(strings.ToLower(words[0]), "enum")
	t.tokens = t.tokens[len(words):]
	if !t.accept("(") {
		return nil
	}
	if t.accept(")") {
		return nil
	}
	for {
		if err := t.argument(enum); err != nil {
			return err
		}
		if !t.accept(",") {
			break
		}
	}
	if !t.accept(")") {
		return refuse("a type without its end")
	}
	return nil
}

// argument reads what a type has in parentheses: a type, with or without a name,
// a number, a time zone, 'text' = 1, max_types = 8, or what a JSON type says about
// paths.
func (t *types) argument(enum bool) error {
	switch first := t.peek(0); {
	case first.kind == text:
		t.skip()
		switch {
		case !enum:
			return TimeZone(first.text)
		case t.accept("="):
			return t.number()
		}
		return nil
	case first.kind == number || first.is("-"):
		return t.number()
	case first.kind == quoted:
		return t.path()
	case first.kind != word:
		return refuse("an argument of a type")
	case t.peek(1).is("="):
		t.skip()
		t.skip()
		return t.number()
	case t.peek(1).is("."):
		return t.path()
	case first.text == "SKIP":
		return t.skipped()
	}
	if words := t.words(); !t.isType(words) {
		t.skip() // the name
	}
	return t.typ()
}

func (t *types) number() error {
	t.accept("-")
	if t.peek(0).kind != number {
		return refuse("a number")
	}
	t.skip()
	return nil
}

// path reads a.b Type.
func (t *types) path() error {
	t.names()
	return t.typ()
}

func (t *types) names() {
	for t.peek(0).names() {
		t.skip()
		if !t.accept(".") {
			return
		}
	}
}

// skipped reads SKIP a.b or SKIP REGEXP 'text'.
func (t *types) skipped() error {
	t.skip()
	if t.peek(0).keyword("REGEXP") && t.peek(1).kind == text {
		t.skip()
		t.skip()
		return nil
	}
	if !t.peek(0).names() {
		return refuse("a path")
	}
	t.names()
	return nil
}
