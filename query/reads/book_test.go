package reads

import (
	"archive/zip"
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/xuri/excelize/v2"
)

// TestBookSheets: rows go on in the next sheet, in parts that are not seen, and the sheet of long texts stands between
// them. One sheet is selected, so that what is typed into it goes into no other.
func TestBookSheets(t *testing.T) {
	columns := []string{"no", "text", "long"}
	table := &Table[[]string, struct{}]{
		Name: "x", Temp: t.TempDir(), Columns: columns, Cells: func(row []string) ([]string, error) { return row, nil },
	}
	var file bytes.Buffer
	b, err := newBookWriter(&file, table)
	if err != nil {
		t.Fatal(err)
	}
	b.most = 1500
	var all [][]string
	for i := range 3300 {
		row := []string{fmt.Sprint(i), strings.Repeat("<&é_x000D_\n", 60), "x"}
		if i == 100 || i == 2000 {
			row[2] = strings.Repeat("y", 40_000)
		}
		all = append(all, row)
	}
	for page := range slices.Chunk(all, 350) {
		if err := b.write(page); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.end(); err != nil {
		t.Fatal(err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(table.Temp); err != nil || len(left) > 0 {
		t.Errorf("%d temporary files are left, %v", len(left), err)
	}
	if n := selected(t, file.Bytes()); n != 1 {
		t.Errorf("%d sheets are selected", n)
	}
	book, err := excelize.OpenReader(&file)
	if err != nil {
		t.Fatal(err)
	}
	defer book.Close()
	if got, want := book.GetSheetList(), []string{"Results", "Long texts", "Results 2", "Results 3"}; !slices.Equal(got, want) {
		t.Fatalf("sheets %q", got)
	}
	n := 0
	for _, name := range []string{"Results", "Results 2", "Results 3"} {
		rows, err := book.GetRows(name)
		if err != nil || len(rows) == 0 || !slices.Equal(rows[0], columns) {
			t.Fatalf("%s: %d rows, %v", name, len(rows), err)
		}
		for _, row := range rows[1:] {
			want := slices.Clone(all[n])
			want[2] = want[2][:min(len(want[2]), maxCellUnits)]
			if !slices.Equal(row, want) {
				t.Fatalf("%s: row %d is %.80q", name, n, row)
			}
			n++
		}
	}
	if n != len(all) {
		t.Errorf("%d rows of %d", n, len(all))
	}
	if others, err := book.GetRows("Long texts"); err != nil || len(others) != 5 || others[1][0] != "Results" || others[3][0] != "Results 2" {
		t.Errorf("%d parts of long texts, %v", len(others), err)
	}
}

// selected is how many sheets of a book are selected.
func selected(t *testing.T, file []byte) (n int) {
	t.Helper()
	parts, err := zip.NewReader(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range parts.File {
		content, err := fs.ReadFile(parts, part.Name)
		if err != nil {
			t.Fatal(part.Name, err)
		}
		if bytes.Contains(content, []byte("tabSelected=\"true\"")) {
			n++
		}
	}
	return n
}

// TestBookMemory: a book that is written holds a part of a sheet, and no more.
func TestBookMemory(t *testing.T) {
	table := &Table[[]string, struct{}]{
		Name: "x", Temp: t.TempDir(), Columns: []string{"a"}, Cells: func(row []string) ([]string, error) { return row, nil },
	}
	b, err := newBookWriter(io.Discard, table)
	if err != nil {
		t.Fatal(err)
	}
	page := slices.Repeat([][]string{{strings.Repeat("text ", 120)}}, 5000)
	before, most := inUse(), uint64(0)
	for range 10 { // 30 MB
		if err := b.write(page); err != nil {
			t.Fatal(err)
		}
		most = max(most, inUse())
	}
	if err := b.end(); err != nil {
		t.Fatal(err)
	}
	if grown := (int64(most) - int64(before)) >> 20; grown > 12 {
		t.Errorf("the process holds %d MiB more while it writes", grown)
	} else {
		t.Logf("%d MiB more", grown)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
}

func inUse() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
