package chdb

import "testing"

func TestParseException(t *testing.T) {
	for _, c := range []struct {
		text string
		want Exception
	}{
		{
			"Code: 60. DB::Exception: No table (x) here. (UNKNOWN_TABLE)",
			Exception{60, "UNKNOWN_TABLE", "No table (x) here."},
		},
		{
			"Code: 115. DB::Exception: Code: 115. DB::Exception: Unknown setting 'x'. (UNKNOWN_SETTING) (version " +
				"26.5.1.1). (UNKNOWN_SETTING)",
			Exception{115, "UNKNOWN_SETTING", "Unknown setting 'x'."},
		},
		{"something else", Exception{codeUnknown, "", "something else"}},
	} {
		if got := parseException(c.text); *got != c.want {
			t.Errorf("%q: %+v", c.text, *got)
		}
	}
}
