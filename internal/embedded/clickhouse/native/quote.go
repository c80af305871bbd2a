package native

import (
	"fmt"
	"strconv"
	"strings"
)

var escapes = map[byte]byte{
	'0': 0, 'a': '\a', 'b': '\b', 'e': 0x1b, 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t', 'v': '\v',
}

// unquote reads a string as ClickHouse writes it between quotes.
func unquote(s string) (string, error) {
	if len(s) < 2 || s[0] != '\'' || s[len(s)-1] != '\'' {
		return "", fmt.Errorf("%w: %.100q is no quoted string", ErrProtocol, s)
	}
	s = s[1 : len(s)-1]
	if !strings.ContainsAny(s, `\'`) {
		return s, nil
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\'' {
			if i++; i == len(s) || s[i] != '\'' { // '' is a quote
				return "", fmt.Errorf("%w: a quote within a quoted string", ErrProtocol)
			}
		}
		if s[i] != '\\' {
			b.WriteByte(s[i])
			continue
		}
		if i++; i == len(s) {
			return "", fmt.Errorf("%w: a quoted string ends in a backslash", ErrProtocol)
		}
		if s[i] == 'x' && i+2 < len(s) {
			if v, err := strconv.ParseUint(s[i+1:i+3], 16, 8); err == nil {
				b.WriteByte(byte(v))
				i += 2
				continue
			}
		}
		if c, ok := escapes[s[i]]; ok {
			b.WriteByte(c)
		} else {
			b.WriteByte(s[i])
		}
	}
	return b.String(), nil
}
