package statement

import (
	"slices"
	"strings"
)

// ReplaceCalls puts literals in the places of the calls f() of functions without
// arguments, whose names are given in lower case. Columns keep the names of the
// calls.
func ReplaceCalls(text string, literals map[string]string) string {
	if len(literals) == 0 {
		return text
	}
	p := parser{lexer: lexer{text: text}}
	var b strings.Builder
	done := 0
	for p.advance(); p.tok.kind != end; {
		name := p.text[p.tok.start:p.tok.end]
		literal, known := literals[strings.ToLower(name)]
		start, called := p.tok.start, p.tok.kind == word && known
		p.advance()
		if !called || !p.isSymbol('(') {
			continue
		}
		if p.advance(); !p.isSymbol(')') {
			continue
		}
		stop := p.tok.end
		p.advance()
		b.WriteString(text[done:start])
		if p.isAlias() {
			b.WriteString(literal)
		} else {
			b.WriteString("(" + literal + " AS `" + name + "()`)")
		}
		done = stop
	}
	return b.String() + text[done:]
}

// behindExpression are words that can follow an expression without an alias.
var behindExpression = strings.Fields(`AND ARRAY ASC BETWEEN CROSS DESC DIV ELSE END EXCEPT FETCH FORMAT
	FROM FULL GLOBAL GROUP
	HAVING ILIKE IN INNER INTERSECT INTO IS JOIN LEFT LIKE LIMIT MOD NOT OFFSET ON
	OR ORDER PREWHERE QUALIFY REGEXP RIGHT
	SETTINGS THEN UNION USING WHEN WHERE WINDOW WITH`)

// isAlias tells whether the current token, behind an expression, gives it a name.
func (p *parser) isAlias() bool {
	return p.tok.kind == quoted || p.tok.kind == word && !slices.Contains(behindExpression, p.word(p.tok))
}

// ReplaceName puts text in the places of a bare word of a statement.
func ReplaceName(text, name, by string) string {
	p := parser{lexer: lexer{text: text}}
	var b strings.Builder
	done := 0
	for p.advance(); p.tok.kind != end; p.advance() {
		if p.isWord(name) {
			b.WriteString(text[done:p.tok.start] + by)
			done = p.tok.end
		}
	}
	return b.String() + text[done:]
}
