package statement

import "strings"

// Insert is an INSERT whose data follows it, in its text or by itself.
type Insert struct {
	Head     string // "INSERT INTO t (a, b)"
	Table    string // as written: db.t, or the table function f(a, b)
	Columns  string // the list as written, without parentheses; empty for all
	Settings string // of its SETTINGS clause
	Format   string // Values when it names none
	Inline   string // what follows in the text itself
}

// insert reads an INSERT, whose data begins at data; nil is one that selects its rows.
func (p *parser) insert() (in *Insert, data int, err error) {
	start := p.tok.start
	fork := *p
	p.advance()
	if p.isWord("INTO") {
		p.advance()
	}
	if p.isWord("TABLE") {
		p.advance()
	}
	in = &Insert{Format: "Values"}
	if p.isWord("FUNCTION") {
		p.advance()
		in.Table = p.call()
	} else {
		in.Table = p.tableName()
	}
	if p.isSymbol('(') {
		columns, ok := p.columns()
		if !ok {
			*p = fork
			return nil, 0, nil
		}
		in.Columns = columns
	}
	in.Head = p.text[start:p.prevEnd()]
	if p.isWord("FROM") {
		return nil, 0, ErrOutfile
	}
	if p.isWord("SETTINGS") {
		in.Settings = p.settings()
	}
	switch {
	case p.isWord("VALUES"):
		in.Inline = p.text[p.tok.end:]
	case p.isWord("FORMAT"):
		p.advance()
		in.Format = p.text[p.tok.start:p.tok.end]
		in.Inline = behindFormat(p.text[p.tok.end:])
	case p.tok.kind == end, p.isSymbol(';'):
		return in, p.prevEnd(), nil
	default:
		*p = fork
		return nil, 0, nil
	}
	data = len(p.text) - len(in.Inline)
	if strings.Trim(in.Inline, " \t\r\n;") == "" {
		in.Inline = ""
	}
	return in, data, nil
}

// tableName reads db.t or {t:Identifier}; afterwards the current token is the one
// behind it.
func (p *parser) tableName() string {
	start := p.tok.start
	stop := p.name()
	for p.advance(); p.isSymbol('.'); p.advance() {
		p.advance()
		stop = p.name()
	}
	return p.text[start:stop]
}

// name reads to the last token of a name, which may be a parameter, and returns
// its end.
func (p *parser) name() (stop int) {
	for param := p.isSymbol('{'); param && p.tok.kind != end && !p.isSymbol('}'); {
		p.advance()
	}
	return p.tok.end
}

// call reads f(a, b) like [parser.tableName].
func (p *parser) call() string {
	start := p.tok.start
	if p.advance(); p.isSymbol('(') {
		p.advance()
	}
	stop, _ := p.closing()
	return p.text[start:stop]
}

// columns reads a column list; it is not one when it selects.
func (p *parser) columns() (string, bool) {
	start := p.tok.end
	p.advance()
	if p.isWord("SELECT") || p.isWord("WITH") {
		return "", false
	}
	stop, ok := p.closing()
	return p.text[start:max(start, stop-1)], ok
}

// closing reads from within a parenthesis to its end, and over it.
func (p *parser) closing() (stop int, ok bool) {
	for depth := 1; p.tok.kind != end; p.advance() {
		if p.isSymbol('(') {
			depth++
		}
		if p.isSymbol(')') {
			if depth--; depth == 0 {
				stop = p.tok.end
				p.advance()
				return stop, true
			}
		}
	}
	return len(p.text), false
}

// prevEnd is the end of what was read before the current token.
func (p *parser) prevEnd() int {
	return len(strings.TrimRight(p.text[:p.tok.start], " \t\r\n"))
}

func (p *parser) settings() string {
	p.advance()
	start := p.tok.start
	for p.tok.kind != end && !p.isWord("VALUES") && !p.isWord("FORMAT") && !p.isWord("SELECT") && !p.isWord("WITH") &&
		!p.isSymbol(';') {
		p.advance()
	}
	return strings.TrimSpace(p.text[start:p.tok.start])
}

// behindFormat is the data behind a format's name: white space and one line's
// end between them are no data.
func behindFormat(s string) string {
	s = strings.TrimLeft(s, " \t\r")
	return strings.TrimPrefix(s, "\n")
}
