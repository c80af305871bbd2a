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
		value, ok := p.value()
		if !ok {
			return nil, errSet
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

var unquote = strings.NewReplacer(`\\`, `\`, `\'`, `'`, `''`, `'`)

// value reads a string or a number, up to the token behind it.
func (p *parser) value() (text string, ok bool) {
	start := p.tok.start
	if p.tok.kind == str && p.text[start] == '\'' { // and no heredoc
		text = unquote.Replace(p.text[start+1 : p.tok.end-1])
		p.advance()
		return text, true
	}
	if p.isSymbol('-') {
		p.advance()
	}
	if p.tok.kind != word {
		return "", false
	}
	for ; p.isSymbol('.') || p.tok.kind == word; p.advance() { // a number may have a point
		text = p.text[start:p.tok.end]
	}
	return text, true
}
