package tabular

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"
)

const (
	bookTypes = `<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">` +
		`<Default Extension="xml" ContentType="application/xml"/></Types>`
	bookLinks = `<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship Id="rId1" ` +
		`Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument" Target="xl/workbook.xml"/></Relationships>`
	bookText = `<workbook xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main" ` +
		`xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"><sheets><sheet name="S" sheetId="1" r:id="rId1"/></sheets></workbook>`
	sheetLinks = `<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship Id="rId1" ` +
		`Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/worksheet" Target="worksheets/sheet1.xml"/></Relationships>`
)

// sheetOf is a sheet with a header and rows.
func sheetOf(rows string) string {
	return `<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><sheetData><row r="1"><c r="A1" t="inlineStr">` +
		`<is><t>sku</t></is></c></row>` + rows + `</sheetData></worksheet>`
}

func rowOf(attributes, cell string) string {
	return "<row" + attributes + `><c t="inlineStr"><is><t>` + cell + `</t></is></c></row>`
}

// sst begins the texts that sheets share.
const sst = `<sst xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main">`

// numbered is a row with one of the texts that sheets share.
func numbered(text int) string { return fmt.Sprintf(`<row><c s="1" t="s"><v>%d</v></c></row>`, text) }

// bookOf is an XLSX, with parts in place of those of an ordinary one or beside them.
func bookOf(t testing.TB, parts map[string]string) []byte {
	t.Helper()
	all := map[string]string{
		"[Content_Types].xml": bookTypes, "_rels/.rels": bookLinks, "xl/workbook.xml": bookText, "xl/_rels/workbook.xml.rels": sheetLinks,
	}
	maps.Copy(all, parts)
	var book bytes.Buffer
	z := zip.NewWriter(&book)
	for name, text := range all {
		w, err := z.Create(name)
		if err == nil {
			_, err = io.WriteString(w, text)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return book.Bytes()
}

// readBook reads a book to its end, and returns its first cells and what is wrong with it.
func readBook(t *testing.T, book []byte) (cells []string, rule string) {
	t.Helper()
	r, err := Open(bytes.NewReader(book), Format{Kind: XLSX}, t.TempDir())
	for err == nil {
		var row Row
		if row, err = r.Next(); err == nil && row.Fault == nil {
			cells = append(cells, row.Cells[0])
		}
	}
	if r != nil {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
	var table *ErrTable
	if errors.As(err, &table) {
		return cells, table.Text
	}
	if !errors.Is(err, io.EOF) {
		t.Errorf("%v", err)
	}
	return cells, ""
}

// TestHostileBooks: a book that would unpack to more than is held in memory is refused before that, and one that is damaged
// does not look as if it had ended.
func TestHostileBooks(t *testing.T) {
	const sheet, texts = "xl/worksheets/sheet1.xml", "xl/sharedStrings.xml"
	for name, c := range map[string]struct {
		parts map[string]string
		cells string
		rule  string
	}{
		"fine":            {map[string]string{sheet: sheetOf(rowOf(` r="2" spans="1:1"`, "a") + rowOf(` r="7"`, "b"))}, "a b", ""},
		"without numbers": {map[string]string{sheet: sheetOf(rowOf("", "a") + rowOf("", "b") + "<row/>")}, "a b", ""},
		"numbers behind others": {
			map[string]string{sheet: sheetOf(rowOf(` spans="1:1" r="3"`, "a") + rowOf(` r="4"`, "b"))}, "a b", "",
		},
		"a text like tags": {
			map[string]string{sheet: sheetOf(rowOf("", `<![CDATA[<row r="9">]]>`) + rowOf("", "b"))}, `<row r="9"> b`, "",
		},
		"empty":                {map[string]string{sheet: strings.Replace(sheetOf(""), "<row r=", "<row ht=", 1)}, "", ""},
		"pictures":             {map[string]string{sheet: sheetOf(rowOf("", "a")), "xl/media/a.bmp": strings.Repeat("\x00", 8<<20)}, "a", ""},
		"a control sign":       {map[string]string{sheet: sheetOf(rowOf("", "a") + rowOf("", "\x01") + rowOf("", "b"))}, "a", "is damaged"},
		"an entity":            {map[string]string{sheet: sheetOf(rowOf("", "&what;") + rowOf("", "b"))}, "", "is damaged"},
		"an entity at the end": {map[string]string{sheet: sheetOf(rowOf("", "a") + rowOf("", "&what;"))}, "", "in its last row"},
		"cut off":              {map[string]string{sheet: strings.TrimSuffix(sheetOf(rowOf("", "a")), "</row></sheetData></worksheet>")}, "", "in its last row"},
		"another encoding": {
			map[string]string{sheet: `<?xml version="1.0" encoding="windows-1252"?>` + sheetOf(rowOf("", "\x80"))}, "€", "",
		},
		"a prefix": {
			map[string]string{sheet: `<x:worksheet xmlns:x="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><x:sheetData><x:row r="1">` +
				`<x:c t="inlineStr"><x:is><x:t>sku</x:t></x:is></x:c></x:row><x:row r="2"><x:c t="inlineStr"><x:is><x:t>a&amp;b</x:t></x:is></x:c></x:row>` +
				`</x:sheetData></x:worksheet>`}, "a&b", "",
		},
		"entities":       {map[string]string{sheet: `<!DOCTYPE x [<!ENTITY y "z">]>` + sheetOf(rowOf("", "&y;"))}, "", "declares"},
		"a far row":      {map[string]string{sheet: sheetOf(rowOf(` r="2000000000"`, "a"))}, "", "a row beyond 1048576"},
		"a sheet of NUL": {map[string]string{sheet: strings.Repeat("\x00", 5<<20)}, "", "a text of more than"},
		"a large cell":   {map[string]string{sheet: sheetOf(rowOf("", strings.Repeat("a", 5<<20)))}, "", "a text of more than"},
		"many styles":    {map[string]string{sheet: sheetOf(""), "xl/styles.xml": strings.Repeat("<xf/>", 1_000_001)}, "", "1000000 tags"},
		"a workbook elsewhere": {
			map[string]string{sheet: sheetOf(""), "xl/workbook.bin": strings.Repeat("<x/>", 1_000_001)}, "", "1000000 tags",
		},
		"texts by number": {map[string]string{sheet: sheetOf(numbered(1) + numbered(0)), texts: sst + "<si><t>a</t></si><si><t>b</t></si></sst>"}, "b a", ""},
		"a text that is not there": {
			map[string]string{sheet: sheetOf(numbered(2)), texts: sst + "<si><t>a</t></si><si><t>b</t></si></sst>"}, "", "the text number 3, and there are 2",
		},
		"a tag over lines": {
			map[string]string{sheet: sheetOf(numbered(1) + "<row><c\n><v>9</v></c></row>"), texts: sst + "<si\n><t>a</t></si><si\n><t>b</t></si></sst>"},
			"b 9", "",
		},
		"no texts":       {map[string]string{sheet: sheetOf(numbered(0))}, "", "the text number 1, and there are 0"},
		"an empty list":  {map[string]string{sheet: sheetOf(numbered(0)), texts: sst + "</sst>"}, "", "the text number 1, and there are 0"},
		"a number alone": {map[string]string{sheet: sheetOf(`<row><c><v>7</v></c></row>`), texts: sst + "</sst>"}, "7", ""},
		"many empty texts": {
			map[string]string{sheet: sheetOf(""), texts: strings.Repeat("<si/>", 20_000_001)}, "", "20000000 tags",
		},
	} {
		t.Run(name, func(t *testing.T) {
			cells, rule := readBook(t, bookOf(t, c.parts))
			if got := strings.Join(cells, " "); got != c.cells || !strings.Contains(rule, c.rule) || c.rule == "" && rule != "" {
				t.Errorf("%q, %q, want %q, %q", got, rule, c.cells, c.rule)
			}
		})
	}
	damaged := bookOf(t, map[string]string{sheet: sheetOf(strings.Repeat(rowOf("", "a"), 1000))})
	at := bytes.Index(damaged, []byte(sheet))
	damaged[at+len(sheet)+60] ^= 0x10
	if _, rule := readBook(t, damaged); !strings.Contains(rule, "is damaged") {
		t.Errorf("a part with another checksum: %q", rule)
	}
}

// FuzzBook: no file makes the reader fail otherwise than it says, and the same file gives the same rows (4).
func FuzzBook(f *testing.F) {
	f.Add(bookOf(f, map[string]string{"xl/worksheets/sheet1.xml": sheetOf(rowOf("", "a"))}))
	f.Fuzz(sameTwice)
}

// FuzzSheet: nor does any sheet of a book.
func FuzzSheet(f *testing.F) {
	f.Add(sheetOf(rowOf(` r="2"`, "a")+numbered(0)), sst+"<si><t>a</t></si></sst>", "")
	f.Add(sheetOf(`<row><c s="1"><v>45000.5</v></c></row>`), "",
		`<styleSheet><cellXfs><xf/><xf numFmtId="14"/></cellXfs></styleSheet>`)
	f.Fuzz(func(t *testing.T, sheet, texts, styles string) {
		parts := map[string]string{"xl/worksheets/sheet1.xml": sheet, "xl/sharedStrings.xml": texts}
		if styles != "" {
			parts["xl/styles.xml"] = styles
		}
		sameTwice(t, bookOf(t, parts))
	})
}

func sameTwice(t *testing.T, book []byte) {
	cells, rule := readBook(t, book)
	if again, other := readBook(t, book); !slices.Equal(cells, again) || rule != other {
		t.Errorf("%q %s, and then %q %s", cells, rule, again, other)
	}
}
