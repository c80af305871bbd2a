package main

import (
	"fmt"
	"strings"
	"testing"
)

// TestUploadNotices: a row with another end or another result than planned is found.
func TestUploadNotices(t *testing.T) {
	fates, plan := map[rowFate]int{}, planOf(1, 0)
	for row := 1; row <= uploadRows; row++ {
		fates[plan.fate(row)] = row
	}
	if len(fates) != 5 {
		t.Fatalf("%v", fates)
	}
	done, missing := fates[rowDone], fates[rowMissing]
	result := func(row int) string { return fmt.Sprintf(`{"row":%d,"upload":1}`, row) }
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
		v.row("a", plan, test.row, test.status, 1, test.result)
		if (len(v.mismatches) > 0) != test.wrong {
			t.Errorf("%s: %v", name, v.mismatches)
		}
	}
}

// TestWatchedNotices: a file that was taken twice, or not at all, is found.
func TestWatchedNotices(t *testing.T) {
	place := &watchedPlace{must: []int{watchedUploads}, may: []int{watchedUploads + 1}}
	one, other := planOf(watchedUploads, 0), planOf(watchedUploads+1, 0)
	for name, test := range map[string]struct {
		there []uploadPlan
		wrong bool
	}{
		"each":        {[]uploadPlan{one, other}, false},
		"overwritten": {[]uploadPlan{one}, false},
		"none":        {[]uploadPlan{other}, true},
		"twice":       {[]uploadPlan{one, one}, true},
		"both twice":  {[]uploadPlan{one, other, other}, true},
	} {
		plans := map[string]uploadPlan{}
		for i, p := range test.there {
			plans[fmt.Sprint(i)] = p
		}
		v := &uploadVerdict{}
		v.place(plans, place)
		if (len(v.mismatches) > 0) != test.wrong {
			t.Errorf("%s: %v", name, v.mismatches)
		}
	}
}

// TestExportNotices: a cell that differs is found, and a row that is missing.
func TestExportNotices(t *testing.T) {
	plan := planOf(7, 0)
	text := plan.text()
	if err := sameRows("csv", []byte(text), plan); err != nil {
		t.Error(err)
	}
	for name, file := range map[string]string{
		"a row less":     planOf(7, 0).text()[:strings.LastIndex(text, "7,48,")],
		"another cell":   strings.Replace(text, "7,9,", "7,8,", 1),
		"another header": strings.Replace(text, "title", "name", 1),
	} {
		if sameRows("csv", []byte(file), plan) == nil {
			t.Errorf("%s is not found", name)
		}
	}
}
