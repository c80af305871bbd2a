package statement

// Databases are the databases that a statement drops, detaches or renames, with
// the values of parameters in their places. Some of a RENAME are their new names.
func (s Statement) Databases(params map[string]string) (names []string) {
	switch s.Verb {
	case "DROP", "DETACH", "RENAME":
	default:
		return nil
	}
	p := parser{lexer: lexer{text: s.Text}}
	p.advance()
	if p.advance(); !p.isWord("DATABASE") {
		return nil
	}
	for p.advance(); p.tok.kind != end; p.advance() {
		name := p.text[p.tok.start:p.tok.end]
		switch {
		case p.tok.kind == quoted && len(name) > 1:
			name = name[1 : len(name)-1]
		case p.isSymbol('{'):
			p.advance()
			name = params[p.text[p.tok.start:p.tok.end]]
		case p.tok.kind != word:
			continue
		}
		names = append(names, name)
	}
	return names
}

// HasTotals tells whether a statement asks for totals, WITH TOTALS, or names the
// setting extremes.
func (s Statement) HasTotals() bool {
	p := parser{lexer: lexer{text: s.Text}}
	with := false
	for p.advance(); p.tok.kind != end; p.advance() {
		if with && p.isWord("TOTALS") || p.isWord("extremes") {
			return true
		}
		with = p.isWord("WITH")
	}
	return false
}
