package judge

import "strings"

type kind byte

const (
	word    kind = iota // keyword or bare identifier
	quoted              // quoted identifier
	number              //
	text                // string literal
	param               // {name:Type}; its text is what is between the braces
	symbol              // a single byte of an operator or a bracket
	nothing             // before the first token and behind the last
)

// token is a token; text is what quotes and escapes stand for.
type token struct {
	kind kind
	text string
}

func (t token) is(s string) bool { return t.kind == symbol && t.text == s }

// keyword tells whether t is w as the engine writes keywords.
func (t token) keyword(w string) bool { return t.kind == word && t.text == w }

// names tells whether t can be an identifier.
func (t token) names() bool { return t.kind == word || t.kind == quoted }

// symbols are the bytes of operators and brackets in a text of the engine.
const symbols = "()[],.+-*/%=<>!?:|^"

// lex splits a text that the engine has written: one line, without comments,
// heredocs or statements behind a semicolon. Anything else is refused.
func lex(s string) ([]token, error) {
	l := lexer{rest: s}
	tokens := make([]token, 0, len(s)/4)
	for {
		l.rest = strings.TrimLeft(l.rest, " ")
		if l.rest == "" {
			return tokens, nil
		}
		t, err := l.next()
		if err != nil {
			return nil, err
		}
		tokens = append(tokens, t)
	}
}

type lexer struct{ rest string }

func (l *lexer) next() (token, error) {
	c := l.rest[0]
	switch {
	case isLetter(c):
		return token{word, l.while(func(c byte) bool { return isLetter(c) || isDigit(c) })}, nil
	case isDigit(c):
		return token{number, l.number()}, nil
	case c == '\'':
		s, err := l.quote()
		return token{text, s}, err
	case c == '`':
		s, err := l.quote()
		if err == nil {
			err = plainName(s)
		}
		return token{quoted, s}, err
	case c == '{':
		end := strings.IndexByte(l.rest, '}')
		if end < 0 {
			return token{}, refuse("a brace without its end")
		}
		s := l.rest[1:end]
		l.rest = l.rest[end+1:]
		return token{param, s}, nil
	case strings.HasPrefix(l.rest, "--"), strings.HasPrefix(l.rest, "/*"), strings.IndexByte(symbols, c) < 0:
		return token{}, refuse("the character %q at this place", c)
	}
	l.rest = l.rest[1:]
	return token{symbol, string(c)}, nil
}

func isLetter(c byte) bool { return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// while takes the bytes at the front for which ok holds.
func (l *lexer) while(ok func(byte) bool) string {
	n := 0
	for n < len(l.rest) && ok(l.rest[n]) {
		n++
	}
	s := l.rest[:n]
	l.rest = l.rest[n:]
	return s
}

// number takes digits, letters and points, and the sign of an exponent.
func (l *lexer) number() string {
	n := 0
	for n < len(l.rest) {
		c := l.rest[n]
		sign := (c == '+' || c == '-') && (l.rest[n-1] == 'e' || l.rest[n-1] == 'E')
		if !isDigit(c) && !isLetter(c) && c != '.' && !sign {
			break
		}
		n++
	}
	s := l.rest[:n]
	l.rest = l.rest[n:]
	return s
}

var escapes = map[byte]byte{'n': '\n', 't': '\t', 'r': '\r', 'b': '\b', 'f': '\f', '0': 0}

// quote takes a text in quotes.
func (l *lexer) quote() (string, error) {
	q := l.rest[0]
	var b strings.Builder
	for i := 1; i < len(l.rest); i++ {
		switch c := l.rest[i]; {
		case c == '\\' && i+1 < len(l.rest):
			i++
			if e, known := escapes[l.rest[i]]; known {
				b.WriteByte(e)
			} else {
				b.WriteByte(l.rest[i])
			}
		case c == q && i+1 < len(l.rest) && l.rest[i+1] == q:
			i++
			b.WriteByte(q)
		case c == q:
			l.rest = l.rest[i+1:]
			return b.String(), nil
		default:
			b.WriteByte(c)
		}
	}
	return "", refuse("a quote without its end")
}

// plainName refuses names that could be taken for something else where a tree is
// printed.
func plainName(s string) error {
	control := strings.ContainsFunc(s, func(c rune) bool { return c < ' ' || c == 0x7f })
	if control || s == "" || strings.Contains(s, "(alias ") || strings.Contains(s, "(children ") {
		return refuseHint("choose another one", "the name %q", s)
	}
	return nil
}
