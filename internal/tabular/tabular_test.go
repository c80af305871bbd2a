package tabular

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/xuri/excelize/v2"
	"golang.org/x/text/encoding/htmlindex"
	"golang.org/x/text/encoding/unicode"
)

// told is a row in short: its cells, or the code of its fault with its line.
func told(row Row) string {
	switch {
	case row.Fault != nil:
		return fmt.Sprintf("%d: %s on %d: %q", row.No, row.Fault.Code, row.Line, row.Raw)
	case row.Object != nil:
		return fmt.Sprintf("%d: %s", row.No, row.Object)
	}
	return fmt.Sprintf("%d: %q", row.No, row.Cells)
}

// readAll reads a file as its own bytes say it is to be read.
func readAll(t *testing.T, name string, file []byte) (f Format, header []string, rows []string) {
	t.Helper()
	var s Sniffer
	_, _ = io.Copy(&s, iotest.HalfReader(bytes.NewReader(file)))
	f, err := s.Sniff(name, "", "", 0)
	if err != nil {
		t.Fatal(err)
	}
	r, err := Open(iotest.OneByteReader(bytes.NewReader(file)), f, t.TempDir())
	if err != nil {
		return f, nil, []string{err.Error()}
	}
	defer func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}()
	for {
		row, err := r.Next()
		if errors.Is(err, io.EOF) {
			return f, r.Header(), rows
		}
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, told(row))
	}
}

// TestCSV: rows are as RFC 4180 has them, and each row that breaks a rule is told with it (1, 2).
func TestCSV(t *testing.T) {
	for name, c := range map[string]struct {
		file string
		want []string
	}{
		"plain":             {"a,b\n1,2\n3,4", []string{`1: ["1" "2"]`, `2: ["3" "4"]`}},
		"CRLF":              {"a,b\r\n1,2\r\n", []string{`1: ["1" "2"]`}},
		"line breaks":       {"a,b\r\n\"x\r\ny\n\",2\r\n3,4\r\n", []string{`1: ["x\r\ny\n" "2"]`, `2: ["3" "4"]`}},
		"quotes":            {"a,b\n\"say \"\"x\"\"\",5\" wide\n", []string{`1: ["say \"x\"" "5\" wide"]`}},
		"spaces":            {"a, b\n 1 ,\t2\n", []string{`1: [" 1 " "\t2"]`}},
		"empty cells":       {"a,b\n,\n\"\",\n", []string{`1: ["" ""]`, `2: ["" ""]`}},
		"blank lines":       {"\n\na,b\n\n1,2\n\r\n\n", []string{`1: ["1" "2"]`}},
		"one column":        {"a\n1\n\n2\n", []string{`1: ["1"]`, `2: [""]`, `3: ["2"]`}},
		"lone CR in a cell": {"a,b\n1\r1,2\n", []string{`1: ["1\r1" "2"]`}},
		"old Mac":           {"a,b\r1,2\r\"x\ry\",4\r", []string{`1: ["1" "2"]`, `2: ["x\ry" "4"]`}},
		"ends in quotes":    {"a,b\n1,\"2\"", []string{`1: ["1" "2"]`}},
		"cells": {
			"a,b\n1\n1,2,3\n4,5\n",
			[]string{`1: cells_count on 2: "1\n"`, `2: cells_count on 3: "1,2,3\n"`, `3: ["4" "5"]`},
		},
		"behind a quote": {"a,b\n\"1\"x,2\n3,4\n", []string{`1: quote_misplaced on 2: "\"1\"x,2\n"`, `2: ["3" "4"]`}},
		"unclosed":       {"a,b\n1,2\n3,\"4\n5,6\n", []string{`1: ["1" "2"]`, `2: quote_unclosed on 3: "3,\"4\n5,6\n"`}},
		"NUL":            {"a,b\n1,\x002\n3,4\n", []string{`1: nul on 2: "1,\x002\n"`, `2: ["3" "4"]`}},
		"lines":          {"a,b\n\"x\ny\",2\n3\n", []string{`1: ["x\ny" "2"]`, `2: cells_count on 4: "3\n"`}},
		"broken UTF-8": {"\ufeffa,b\n1,\xff\n\xc3,\xa9\n3,4\n", []string{
			`1: undecodable on 2: "1,\xff\n"`, `2: undecodable on 3: "\xc3,\xa9\n"`, `3: ["3" "4"]`,
		}},
		"semicolons":      {"a;b\n1,5;2\n2,5;3\n", []string{`1: ["1,5" "2"]`, `2: ["2,5" "3"]`}},
		"tabs":            {"a\tb\n1;1\t2,2\n", []string{`1: ["1;1" "2,2"]`}},
		"bars":            {"a|b|c\n1|2|3\n", []string{`1: ["1" "2" "3"]`}},
		"commas in texts": {"a;b\n1,2,3;4\n5,6,7;8\n", []string{`1: ["1,2,3" "4"]`, `2: ["5,6,7" "8"]`}},
		"empty":           {"", []string{"the file has no line with the names of its columns"}},
		"header alone":    {"a,b\n", nil},
		"header broken":   {"a,\"b\n1,2\n", []string{`in the line with the names of the columns, the quote that opens a cell on line 1 is not closed`}},
	} {
		if _, _, got := readAll(t, "x.csv", []byte(c.file)); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestBounds: what is too large is refused for itself, is not held, and the next row is read (2, 3).
func TestBounds(t *testing.T) {
	cell, wide := strings.Repeat("x", MaxCell), strings.Repeat("y", MaxCell)
	file := "a,b\n" + cell + ",1\n" + cell + "x,2\n\"" + cell + "\n\",3\n4," + strings.Repeat(",", 5*MaxColumns) + "\n5,6\n"
	_, _, got := readAll(t, "x.csv", []byte(file))
	want := []string{"1: [", "2: cell_size on 3: ", "3: cell_size on 4: ", "4: cells_count on 6: ", `5: ["5" "6"]`}
	if !slices.EqualFunc(got, want, strings.HasPrefix) {
		for i, row := range got {
			t.Errorf("%d: %.60s", i, row)
		}
	}
	rows := strings.Repeat(","+wide, 8)
	if _, _, got := readAll(t, "x.csv", []byte("a"+strings.Repeat(",b", 8)+"\n1"+rows+"\n")); len(got) != 1 ||
		!strings.HasPrefix(got[0], "1: row_size on 2") {
		t.Errorf("%.60q", got)
	}
	r, err := Open(io.MultiReader(strings.NewReader("a,b\n1,\""), &endless{n: 256 << 20}), Format{
		Kind: CSV, Encoding: UTF8, Delimiter: ',',
	}, "")
	if err != nil {
		t.Fatal(err)
	}
	row, err := r.Next()
	if held := cap(r.(*csvReader).text) + cap(r.(*csvReader).raw); err != nil || row.Fault == nil || held > 4*MaxCell {
		t.Errorf("%v, %v, %d bytes are held", row.Fault, err, held)
	}
}

// endless are n bytes of text.
type endless struct{ n int }

func (e *endless) Read(p []byte) (int, error) {
	if e.n <= 0 {
		return 0, io.EOF
	}
	for i := range p {
		p[i] = 'z'
	}
	e.n -= len(p)
	return len(p), nil
}

// TestCSVAsWritten writes random tables and reads them again, cell for cell, in every encoding (1).
func TestCSVAsWritten(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 1))
	parts := []string{"a", "€", "“x”", "–", "é", " ", "\n", "\"", ",", ";", "\t", "1", "'", "=1", "", "Straße"}
	for range 200 {
		columns := 2 + rnd.IntN(4)
		table := [][]string{{}}
		for i := range columns {
			table[0] = append(table[0], fmt.Sprint("column ", i))
		}
		for range rnd.IntN(20) {
			var row []string
			for range columns {
				var cell strings.Builder
				for range rnd.IntN(6) {
					cell.WriteString(parts[rnd.IntN(len(parts))])
				}
				row = append(row, cell.String())
			}
			table = append(table, row)
		}
		var text bytes.Buffer
		w := csv.NewWriter(&text)
		w.Comma = []rune(Delimiters)[rnd.IntN(len(Delimiters))]
		_ = w.WriteAll(table)
		var want []string
		for i, row := range table[1:] {
			want = append(want, told(Row{No: int64(i + 1), Cells: row}))
		}
		for _, encoding := range []string{UTF8, UTF16LE, UTF16BE, CP1252} {
			file := encoded(t, text.String(), encoding)
			var s Sniffer
			_, _ = s.Write(file)
			f, err := s.Sniff("x.csv", "", encoding, byte(w.Comma))
			if err != nil {
				t.Fatal(err)
			}
			r, err := Open(iotest.HalfReader(bytes.NewReader(file)), f, "")
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for row, err := r.Next(); err == nil; row, err = r.Next() {
				got = append(got, told(row))
			}
			if !slices.Equal(got, want) || !slices.Equal(r.Header(), table[0]) {
				t.Fatalf("seed %d, %s, delimiter %q:\n%q\n%q, want\n%q", seed, encoding, w.Comma, text.String(), got, want)
			}
		}
	}
}

func encoded(t *testing.T, text, encoding string) []byte {
	t.Helper()
	if encoding == UTF8 {
		return []byte(text)
	}
	e, err := htmlindex.Get(encoding)
	switch encoding {
	case UTF16LE:
		e, err = unicode.UTF16(unicode.LittleEndian, unicode.IgnoreBOM), nil
	case UTF16BE:
		e, err = unicode.UTF16(unicode.BigEndian, unicode.IgnoreBOM), nil
	}
	if err != nil {
		t.Fatal(err)
	}
	out, err := e.NewEncoder().Bytes([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestEncoding: the encoding is found by a byte order mark, by what is valid, by zeros, and else is
// cp1252, unless the letters are of another alphabet.
func TestEncoding(t *testing.T) {
	const turkish = "name,city\nAyşe Güneş,İstanbul\nÇağrı Öztürk,Eskişehir\nIşık Yılmaz,Muğla\n"
	const russian = "название,цена\nМагнитола автомобильная с экраном,1200\nЧехол для телефона силиконовый чёрный,300\n" +
		"Платье вечернее длинное красное,4500\nРучка шариковая синяя,20\nСтол письменный деревянный,9000\n"
	const greek = "όνομα,τιμή\nΚαρέκλα γραφείου μαύρη,120\nΤραπέζι κουζίνας ξύλινο,300\nΦόρεμα βραδινό μακρύ κόκκινο,45\n"
	for name, c := range map[string]struct {
		text, in, want string
		mark           []byte
	}{
		"ASCII":             {"a,b\n1,2\n", UTF8, UTF8, nil},
		"UTF-8":             {"a,b\n€,“x”\n", UTF8, UTF8, nil},
		"UTF-8 with mark":   {"a,b\n€,2\n", UTF8, UTF8, []byte("\xef\xbb\xbf")},
		"UTF-16 with mark":  {"a,b\n€,2\n", UTF16LE, UTF16LE, []byte("\xff\xfe")},
		"UTF-16BE, mark":    {"a,b\n€,2\n", UTF16BE, UTF16BE, []byte("\xfe\xff")},
		"UTF-16":            {"a,b\n€,2\nxyz,“x”\n", UTF16LE, UTF16LE, nil},
		"UTF-16BE":          {"a,b\n1,2\n", UTF16BE, UTF16BE, nil},
		"UTF-16, Russian":   {russian, UTF16LE, UTF16LE, nil},
		"UTF-16BE, Russian": {russian, UTF16BE, UTF16BE, nil},
		"UTF-8 with a NUL":  {"a,b\n1,\x002\n3,4\n", UTF8, UTF8, nil},
		"cp1252":            {"a,b\nprice €5,“curly” – dash\n", CP1252, CP1252, nil},
		"cp1252, a space":   {"a,b\nbag\u00a0and strap,calf\u00a0length\n", CP1252, CP1252, nil},
		"French":            {"nom,prix\nDéjà vu à la fenêtre,12 €\nŒuvre,“3”\n", CP1252, CP1252, nil},
		"Turkish":           {turkish, "windows-1254", CP1252, nil}, // Latin: nobody can be sure
		"Russian":           {russian, "windows-1251", "windows-1251", nil},
		"Russian, KOI8":     {russian, "koi8-r", "koi8-r", nil},
		"Greek":             {greek, "iso-8859-7", "iso-8859-7", nil},
		"Japanese":          {strings.Repeat("名前,値段\n椅子とテーブルのセット,120\n赤いドレスを買いました,300\n", 5), "shift_jis", "shift_jis", nil},
	} {
		text := append(slices.Clone(c.mark), encoded(t, c.text, c.in)...)
		for cut := range min(len(text), 40) {
			var s Sniffer
			_, _ = s.Write(text[:cut])
			_, _ = s.Write(text[cut:])
			if got := s.Encoding(); got != c.want {
				t.Errorf("%s, cut at %d: %s, want %s", name, cut, got, c.want)
				break
			}
		}
		if c.in != c.want {
			continue
		}
		f, header, rows := readAll(t, "x.csv", text)
		if want := strings.Split(strings.SplitN(c.text, "\n", 2)[0], ","); f.Encoding != c.want || !slices.Equal(header, want) {
			t.Errorf("%s: %v, header %q, want %q, rows %q", name, f, header, want, rows)
		}
	}
}

// TestLines: each line is an object, exactly as it was sent, or has a fault (1, 2).
func TestLines(t *testing.T) {
	deep := strings.Repeat(`{"a":`, maxDepth) + "1" + strings.Repeat("}", maxDepth)
	file := strings.Join([]string{
		`{"b":1, "a":"x\ny", "n":12345678901234567890.10}`, ``, `[1]`, `{"a":1,"a":2}`, `{"a":"\u0000"}`, `{"a":"\ud800"}`,
		`{"a":"\ud83d\ude00 \\u0000"}`, `nonsense`, deep, `{"a":` + deep + `}`, "{\"a\":\"\x00\"}", `{}`,
	}, "\n")
	_, _, got := readAll(t, "x.jsonl", []byte(file))
	want := []string{
		`1: {"b":1,"a":"x\ny","n":12345678901234567890.10}`, `2: not_an_object on 3`, `3: member_twice on 4`, `4: nul on 5`,
		`5: undecodable on 6`, `6: {"a":"\ud83d\ude00 \\u0000"}`, `7: not_json on 8`, "8: " + deep, `9: depth on 10`,
		`10: nul on 11`, `11: {}`,
	}
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) || !strings.HasPrefix(got[i], want[i]) {
			t.Fatalf("%d: %q, want %q", i, got, want)
		}
	}
	long := `{"a":"` + strings.Repeat("x", MaxRow) + `"}` + "\n" + `{"a":"` + strings.Repeat("x", MaxCell) + `"}` + "\n{}"
	_, _, got = readAll(t, "x.ndjson", []byte(long))
	if len(got) != 3 || !strings.HasPrefix(got[0], "1: row_size on 1") || !strings.HasPrefix(got[1], "2: cell_size on 2") ||
		got[2] != "3: {}" {
		t.Errorf("%.40q", got)
	}
}

// TestXLSX: the first sheet is read as Excel shows it, and rows with too many cells are refused.
func TestXLSX(t *testing.T) {
	book := excelize.NewFile()
	for at, value := range map[string]any{
		"A1": "name", "B1": "price", "C1": "text", "A2": "x", "B2": 12.5, "C2": "line\nbreak", "A4": "=1+1", "C4": "€",
		"A5": 1, "B5": 2, "C5": 3, "D5": 4,
	} {
		if err := book.SetCellValue("Sheet1", at, value); err != nil {
			t.Fatal(err)
		}
	}
	var file bytes.Buffer
	if err := book.Write(&file); err != nil {
		t.Fatal(err)
	}
	f, header, got := readAll(t, "no name", file.Bytes())
	want := []string{`1: ["x" "12.5" "line\nbreak"]`, `2: ["=1+1" "" "€"]`, `3: cells_count on 5: "1\t2\t3\t4"`}
	if f.Kind != XLSX || !slices.Equal(header, []string{"name", "price", "text"}) || !slices.Equal(got, want) {
		t.Errorf("%v %q %q, want %q", f, header, got, want)
	}
	if _, _, got := readAll(t, "x.xlsx", file.Bytes()[:file.Len()/2]); len(got) != 1 || !strings.Contains(got[0], "no XLSX") {
		t.Errorf("half of a file: %q", got)
	}
}

// TestTemporaryFiles: those of an XLSX are gone when it is closed, and when it cannot be opened.
func TestTemporaryFiles(t *testing.T) {
	dir := t.TempDir()
	book := excelize.NewFile()
	text := strings.Repeat("x", 30_000)
	for i := range 300 { // sheets of more than maxPart
		if err := book.SetCellValue("Sheet1", fmt.Sprintf("A%d", i+1), text+fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
	}
	var file bytes.Buffer
	if err := book.Write(&file); err != nil {
		t.Fatal(err)
	}
	r, err := Open(bytes.NewReader(file.Bytes()), Format{Kind: XLSX}, dir)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for row, err := r.Next(); err == nil; row, err = r.Next() {
		n++
		if row.Fault != nil || len(row.Cells[0]) < 30_000 {
			t.Fatal(row.Fault, len(row.Cells[0]))
		}
	}
	if err := r.Close(); err != nil || n != 299 {
		t.Error(n, err)
	}
	if _, err := Open(strings.NewReader("PK\x03\x04 and nothing"), Format{Kind: XLSX}, dir); err == nil {
		t.Error("nonsense was opened")
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("files are left: %v, %v", left, err)
	}
}

// TestKeys: names of columns are unique, and those that were unique stay.
func TestKeys(t *testing.T) {
	got := Keys([]string{"a", "a", "a_2", "", " ", "column_4", "b"})
	if want := []string{"a", "a_3", "a_2", "column_4_2", "column_5", "column_4", "b"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// FuzzCSV: whatever a file has, reading ends, repeats itself (4), and rows have as many cells as the header.
func FuzzCSV(f *testing.F) {
	f.Add([]byte("a,b\n1,2\n"))
	f.Add([]byte("a;b\r\n\"x\r\ny\";2\n"))
	f.Add([]byte("\xff\xfea\x00,\x00b\x00\n\x00"))
	f.Fuzz(func(t *testing.T, file []byte) {
		format, header, one := readAll(t, "x.csv", file)
		if format.Kind != CSV {
			return
		}
		_, _, two := readAll(t, "x.csv", file)
		if !slices.Equal(one, two) {
			t.Fatalf("%q and then %q", one, two)
		}
		keys := Keys(header)
		slices.Sort(keys)
		if len(slices.Compact(keys)) != len(header) {
			t.Fatalf("keys of %q: %q", header, keys)
		}
	})
}
