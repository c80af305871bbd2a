package statement

import "strings"

// OnCluster cuts the clause ON CLUSTER out of a statement. The name is empty where there is none.
func OnCluster(text string) (rest, name string) {
	p := parser{lexer: lexer{text: text}}
	for p.advance(); p.tok.kind != end; {
		start, on := p.tok.start, p.isWord("ON")
		p.advance()
		if !on || !p.isWord("CLUSTER") {
			continue
		}
		if p.advance(); p.tok.kind != word && p.tok.kind != quoted && p.tok.kind != str {
			return text, ""
		}
		name = strings.Trim(text[p.tok.start:p.tok.end], "`\"'")
		return strings.TrimRight(text[:start], " \t\r\n") + text[p.tok.end:], name
	}
	return text, ""
}
