package statement

import "strings"

type kind int

const (
	end    kind = iota
	word        // keyword, bare identifier or number
	quoted      // quoted identifier
	str         // string literal
	open        // quoted text without its end
	symbol      // any other single byte
)

// token is text[start:end] of its statement.
type token struct {
	kind       kind
	start, end int
}

// lexer yields the tokens of text, comments left out.
type lexer struct {
	text string
	pos  int
}

func (l *lexer) next() token {
	l.space()
	start := l.pos
	if start >= len(l.text) {
		return token{end, start, start}
	}
	switch c := l.text[start]; {
	case c == '\'':
		return l.quote(str)
	case c == '"' || c == '`':
		return l.quote(quoted)
	case c == '$':
		if l.heredoc() {
			return token{str, start, l.pos}
		}
		l.pos++
		return token{symbol, start, l.pos}
	case isWord(c):
		for l.pos < len(l.text) && (isWord(l.text[l.pos]) || l.text[l.pos] == '$') {
			l.pos++
		}
		return token{word, start, l.pos}
	}
	l.pos++
	return token{symbol, start, l.pos}
}

func isWord(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= 0x80
}

// space moves over white space and comments.
func (l *lexer) space() {
	for l.pos < len(l.text) {
		rest := l.text[l.pos:]
		switch {
		case strings.IndexByte(" \t\r\n\f\v", rest[0]) >= 0:
			l.pos++
		case strings.HasPrefix(rest, "--"), strings.HasPrefix(rest, "#!"), strings.HasPrefix(rest, "# "):
			l.until("\n")
		case strings.HasPrefix(rest, "/*"):
			l.pos += 2
			l.until("*/")
		default:
			return
		}
	}
}

func (l *lexer) until(stop string) {
	if i := strings.Index(l.text[l.pos:], stop); i >= 0 {
		l.pos += i + len(stop)
	} else {
		l.pos = len(l.text)
	}
}

// quote reads to the closing quote; a backslash or doubling escapes one.
func (l *lexer) quote(k kind) token {
	start := l.pos
	q := l.text[start]
	for l.pos++; l.pos < len(l.text); l.pos++ {
		switch l.text[l.pos] {
		case '\\':
			l.pos++
		case q:
			if l.pos+1 < len(l.text) && l.text[l.pos+1] == q {
				l.pos++
				continue
			}
			l.pos++
			return token{k, start, l.pos}
		}
	}
	l.pos = len(l.text)
	return token{open, start, l.pos}
}

// heredoc reads $tag$ text $tag$.
func (l *lexer) heredoc() bool {
	rest := l.text[l.pos:]
	n := 1
	for n < len(rest) && isWord(rest[n]) {
		n++
	}
	if n >= len(rest) || rest[n] != '$' {
		return false
	}
	tag := rest[:n+1]
	i := strings.Index(rest[len(tag):], tag)
	if i < 0 {
		return false
	}
	l.pos += i + 2*len(tag)
	return true
}
