package chdb

import (
	"regexp"
	"strconv"
	"strings"
)

// Exception is an error of the engine.
type Exception struct {
	Code    int    // ClickHouse's error code, such as 60 for an unknown table
	Name    string // its name, such as UNKNOWN_TABLE, when the engine gave it
	Message string // without code, name and version
}

// Error is the text as ClickHouse's own servers write it.
func (e *Exception) Error() string {
	text := "Code: " + strconv.Itoa(e.Code) + ". DB::Exception: " + e.Message
	if e.Name != "" {
		text += " (" + e.Name + ")"
	}
	return text
}

var (
	codePrefix = regexp.MustCompile(`^(?:Error[^:]*: )?(?:Code: (\d+)\. )?DB::Exception: `)
	nameSuffix = regexp.MustCompile(` \(([A-Z][A-Z0-9_]+)\)$`)
	version    = regexp.MustCompile(` \(version [^()]*\)\.?$`)
)

// codeUnknown is what ClickHouse calls UNKNOWN_EXCEPTION.
const codeUnknown = 1002

// parseException reads the text the engine gives an exception, such as
// "Code: 60. DB::Exception: … (UNKNOWN_TABLE)". One exception can wrap another,
// head and tail.
func parseException(text string) *Exception {
	e := &Exception{Code: codeUnknown, Message: strings.TrimSpace(text)}
	for {
		m := codePrefix.FindStringSubmatch(e.Message)
		if m == nil {
			break
		}
		e.Message = e.Message[len(m[0]):]
		if code, err := strconv.Atoi(m[1]); err == nil {
			e.Code = code
		}
	}
	for {
		if m := nameSuffix.FindStringSubmatch(e.Message); m != nil {
			e.Name = m[1]
			e.Message = strings.TrimSuffix(e.Message, m[0])
		} else if m := version.FindString(e.Message); m != "" {
			e.Message = strings.TrimSuffix(e.Message, m)
		} else {
			return e
		}
	}
}
