package main

import (
	"fmt"
	"testing"
)

// TestUploadNotices: a row with another end or another result than planned is found.
func TestUploadNotices(t *testing.T) {
	fates := map[rowFate]int{}
	for row := 1; row <= uploadRows; row++ {
		fates[fateOf(0, row)] = row
	}
	if len(fates) != 5 {
		t.Fatalf("%v", fates)
	}
	done, missing := fates[rowDone], fates[rowMissing]
	result := func(row int) string { return fmt.Sprintf(`{"row":%d,"upload":0}`, row) }
	for name, test := range map[string]struct {
		row    int
		status string
		result string
		wrong  bool
	}{
		"as planned":      {done, "DONE", result(done), false},
		"after a failure": {fates[rowFails], "DONE", result(fates[rowFails]), false},
		"missing":         {missing, "NOT_FOUND", "", false},
		"another's":       {done, "DONE", result(done + 1), true},
		"lost":            {done, "DONE", "", true},
		"left":            {done, "PROCESSING", "", true},
		"found":           {missing, "DONE", result(missing), true},
		"kept":            {fates[rowInvalid], "ERROR", result(fates[rowInvalid]), true},
	} {
		v := &uploadVerdict{}
		v.row("a", 0, test.row, test.status, 1, test.result)
		if (len(v.mismatches) > 0) != test.wrong {
			t.Errorf("%s: %v", name, v.mismatches)
		}
	}
}
