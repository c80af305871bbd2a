package statement

import (
	"errors"
	"strings"
)

// ErrMultiple is a text of several statements.
var ErrMultiple = errors.New("syntax error: multi-statements are not allowed")

// ErrEmpty is a text without a statement.
var ErrEmpty = errors.New("syntax error: empty query")

// ErrOutfile is a statement that would read or write a file of the client,
// which is not on this side of the connection.
var ErrOutfile = errors.New("INTO OUTFILE and FROM INFILE are for the client's own use")

// Statement is one statement.
type Statement struct {
	Verb   string  // its first word in upper case; SELECT for all that select
	Text   string  // without a trailing semicolon and FORMAT clause
	Sent   string  // as it came, without a trailing semicolon and without the data of an INSERT
	Format string  // of the FORMAT clause
	Insert *Insert // of an INSERT that takes data
}

// Parse reads the statement in text.
func Parse(text string) (Statement, error) {
	p := parser{lexer: lexer{text: text}}
	p.advance()
	for p.isSymbol(';') {
		p.advance()
	}
	first := p.tok
	if first.kind == end {
		return Statement{}, ErrEmpty
	}
	verb := strings.ToUpper(p.text[first.start:first.end])
	switch verb {
	case "(", "WITH", "FROM":
		verb = "SELECT"
	case "INSERT":
		if insert, data, err := p.insert(); insert != nil || err != nil {
			return Statement{Verb: verb, Text: text, Sent: text[first.start:max(data, first.start)], Insert: insert},
				err
		}
	}
	return p.rest(verb, first.start)
}

type parser struct {
	lexer
	tok token
}

func (p *parser) advance() { p.tok = p.next() }

func (p *parser) isSymbol(c byte) bool {
	return p.tok.kind == symbol && p.text[p.tok.start] == c
}

func (p *parser) isWord(w string) bool {
	return p.tok.kind == word && strings.EqualFold(p.text[p.tok.start:p.tok.end], w)
}

// rest reads to the end of the statement that begins at start; the current
// token lies in it.
func (p *parser) rest(verb string, start int) (Statement, error) {
	s := Statement{Verb: verb}
	var outer []token // those outside of parentheses
	last := start
	for depth := 0; p.tok.kind != end; p.advance() {
		if p.isSymbol(')') {
			depth = max(depth-1, 0)
		}
		if depth == 0 {
			if p.isSymbol(';') {
				break
			}
			outer = append(outer, p.tok)
		}
		if p.isSymbol('(') {
			depth++
		}
		last = p.tok.end
	}
	for p.isSymbol(';') {
		p.advance()
	}
	if p.tok.kind != end {
		return s, ErrMultiple
	}
	if p.files(outer) {
		return s, ErrOutfile
	}
	s.Text = p.text[start:last]
	s.Sent = s.Text
	if i := p.format(outer); i > 0 && HasOutput(verb) {
		name := outer[i+1]
		s.Format = p.text[name.start:name.end]
		s.Text = strings.TrimRight(p.text[start:outer[i].start], " \t\r\n") + s.Text[name.end-start:]
	}
	return s, nil
}

// files tells of INTO OUTFILE and FROM INFILE.
func (p *parser) files(tokens []token) bool {
	for i := 1; i < len(tokens); i++ {
		before, w := p.word(tokens[i-1]), p.word(tokens[i])
		if w == "OUTFILE" && before == "INTO" || w == "INFILE" && before == "FROM" {
			return true
		}
	}
	return false
}

// format finds a FORMAT clause: it is the last one, or SETTINGS follow it.
func (p *parser) format(tokens []token) int {
	for i := len(tokens) - 2; i > 0; i-- {
		if p.word(tokens[i]) != "FORMAT" || tokens[i+1].kind != word || !p.clause(tokens[i-1]) {
			continue
		}
		if i+2 == len(tokens) || p.word(tokens[i+2]) == "SETTINGS" {
			return i
		}
	}
	return 0
}

// word is a bare word in upper case.
func (p *parser) word(t token) string {
	if t.kind != word {
		return ""
	}
	return strings.ToUpper(p.text[t.start:t.end])
}

// clause tells whether a clause can follow t.
func (p *parser) clause(t token) bool {
	if t.kind == symbol {
		c := p.text[t.start]
		return c == ')' || c == ']' || c == '}' || c == '*'
	}
	w := p.word(t)
	return w != "SELECT" && w != "AS" && w != "BY"
}

// HasOutput tells whether a statement has a result, which its FORMAT clause is
// about.
func HasOutput(verb string) bool {
	switch verb {
	case "SELECT", "SHOW", "DESCRIBE", "DESC", "EXPLAIN", "EXISTS", "CHECK", "KILL", "OPTIMIZE", "VALUES":
		return true
	}
	return false
}
