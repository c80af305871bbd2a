package statement

import (
	"errors"
	"fmt"
	"strings"
)

// ErrDeep is a statement that is nested too deeply to be given to the engine.
var ErrDeep = errors.New("the statement is nested too deeply")

// Limits of nesting. The engine writes what is left of a BETWEEN twice, so that
// the time which it takes for a statement doubles with each one around another.
const (
	maxBrackets = 300
	maxBetweens = 12
)

// level is the nesting of BETWEENs between two brackets.
type level struct {
	chain int // BETWEENs around each other up to here in the current operand
	most  int // the longest chain
	open  int // BETWEENs whose AND is still to come
}

// CheckDepth returns an error that is [ErrDeep] unless text is nested as deeply
// as people write. It may take some BETWEENs for nested that are not.
func CheckDepth(text string) error {
	p := parser{lexer: lexer{text: text}}
	levels := []level{{}}
	for p.advance(); p.tok.kind != end; p.advance() {
		top := &levels[len(levels)-1]
		switch word := p.word(p.tok); {
		case p.brackets("([{"), word == "CASE":
			if len(levels) > maxBrackets {
				return fmt.Errorf("%w: more than %d brackets within each other", ErrDeep, maxBrackets)
			}
			levels = append(levels, level{chain: top.chain, most: top.chain, open: top.open})
		case (p.brackets(")]}") || word == "END") && len(levels) > 1:
			inner := top.most
			levels = levels[:len(levels)-1]
			top = &levels[len(levels)-1]
			top.raise(max(top.chain, inner))
		case word == "BETWEEN":
			top.open++
			top.raise(top.chain + 1)
			if top.chain > maxBetweens {
				return fmt.Errorf("%w: more than %d BETWEENs around each other", ErrDeep, maxBetweens)
			}
		case word == "AND" && top.open > 0:
			top.open--
		case word == "AND", separators[word], p.isSymbol(','), p.isSymbol(';'):
			top.chain = 0
		}
	}
	return nil
}

// separators end an operand.
var separators = map[string]bool{
	"OR": true, "SELECT": true, "FROM": true, "WHERE": true, "PREWHERE": true, "HAVING": true, "QUALIFY": true,
	"ON": true, "WHEN": true, "THEN": true, "ELSE": true, "UNION": true,
}

func (l *level) raise(chain int) {
	l.chain = chain
	l.most = max(l.most, chain)
}

func (p *parser) brackets(set string) bool {
	return p.tok.kind == symbol && strings.IndexByte(set, p.text[p.tok.start]) >= 0
}
