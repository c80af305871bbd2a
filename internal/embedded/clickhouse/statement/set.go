package statement

import (
	"errors"
	"strings"
)

var errSet = errors.New("not a list of settings")

// ParseSet reads "SET a = 1, b = 'x'" as the engine writes it.
func ParseSet(text string) (map[string]string, error) {
	p := parser{lexer: lexer{text: text}}
	p.advance()
	if !p.isWord("SET") {
		return nil, errSet
	}
	set := map[string]string{}
	for {
		p.advance()
		name := p.tok
		p.advance()
		if name.kind != word || !p.isSymbol('=') {
			return nil, errSet
		}
		p.advance()
		start := p.tok.start
		if p.isSymbol('-') {
			p.advance()
		}
		value := p.value(start)
		for p.advance(); p.isSymbol('.') || p.tok.kind == word; p.advance() {
			value = p.value(start) // the rest of a number with a point
		}
		set[p.text[name.start:name.end]] = value
		if p.tok.kind == end {
			return set, nil
		}
		if !p.isSymbol(',') {
			return nil, errSet
		}
	}
}

// value is the literal from start to the current token's end.
func (p *parser) value(start int) string {
	if p.tok.kind != str {
		return p.text[start:p.tok.end]
	}
	inner := p.text[start+1 : p.tok.end-1]
	return strings.NewReplacer(`\\`, `\`, `\'`, `'`, `''`, `'`).Replace(inner)
}
