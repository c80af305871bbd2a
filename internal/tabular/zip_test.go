package tabular

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
)

// First bytes of images.
const (
	png  = "\x89PNG\r\n\x1a\n"
	jpeg = "\xff\xd8\xff\xe0"
)

// packed is a file to be put into a zip.
type packed struct{ name, content string }

// zipOf makes a zip, whose headers change changes.
func zipOf(t testing.TB, change func(*zip.FileHeader), files ...packed) []byte {
	t.Helper()
	var out bytes.Buffer
	z := zip.NewWriter(&out)
	var deflated bytes.Buffer
	w, err := flate.NewWriter(&deflated, flate.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if deflated.Reset(); f.content == "" { // many files are
			h := &zip.FileHeader{Name: f.name}
			if change != nil {
				change(h)
			}
			if _, err := z.CreateRaw(h); err != nil {
				t.Fatal(err)
			}
			continue
		}
		w.Reset(&deflated)
		_, _ = w.Write([]byte(f.content))
		_ = w.Close()
		h := &zip.FileHeader{
			Name: f.name, Method: zip.Deflate, CRC32: crc32.ChecksumIEEE([]byte(f.content)),
			UncompressedSize64: uint64(len(f.content)), CompressedSize64: uint64(deflated.Len()),
		}
		if change != nil {
			change(h)
		}
		to, err := z.CreateRaw(h)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := to.Write(deflated.Bytes()); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// zipRows reads a zip of images. An error is its last row.
func zipRows(t *testing.T, file []byte, f Format, cfg ZipConfig) (header, rows []string) {
	t.Helper()
	cfg.Link = func(row int64) string { return fmt.Sprint("/", row) }
	r, err := OpenZip(bytes.NewReader(file), int64(len(file)), f, cfg)
	if err != nil {
		return nil, []string{refusal(t, err)}
	}
	for {
		row, err := r.Next()
		if errors.Is(err, io.EOF) {
			return r.Header(), rows
		}
		if err != nil {
			return r.Header(), append(rows, refusal(t, err))
		}
		if (row.Image == nil) != (row.Fault != nil) {
			t.Errorf("row %d has the image %v", row.No, row.Image)
		}
		rows = append(rows, told(row))
	}
}

func refusal(t *testing.T, err error) string {
	t.Helper()
	var table *ErrTable
	if !errors.As(err, &table) {
		t.Error("it is not the zip's error:", err)
	}
	return err.Error()
}

// TestZip: there is a row for each row of the metadata, with the image that it names by its path or its name, and one for
// each other image (2, 4).
func TestZip(t *testing.T) {
	images := []packed{
		{"shop/a.png", png + "a"},
		{"shop/ä.jpg", jpeg},
		{"shop/old/b.gif", "GIF89a"},
		{"shop/c.webp", "RIFF\x04\x00\x00\x00WEBPVP8 "},
		{"shop/x/same.png", png},
		{"shop/y/same.png", png},
		{"shop/", ""},
		{"__MACOSX/shop/._a.png", "x"},
		{".DS_Store", "x"},
	}
	csv := "sku;File;title\n1;a.png;A\n2;old/b.gif;B\n3;shop/ä.jpg;\"C\nc\"\n4;none.png;D\n5;;E\n6;a.png;F\n7;same.png;G\n8\n"
	for _, c := range []struct {
		what, name, content string
		header, rows        []string
	}{
		{
			"CSV", "shop/metadata.csv", csv,
			[]string{"sku", "File", "title", "image_link"},
			[]string{
				`1: ["1" "a.png" "A" "/1"]`, `2: ["2" "old/b.gif" "B" "/2"]`, `3: ["3" "shop/ä.jpg" "C\nc" "/3"]`,
				`4: image_missing on 6: "4\tnone.png\tD"`, `5: image_missing on 7: "5\t\tE"`, `6: image_twice on 8: "6\ta.png\tF"`,
				`7: image_ambiguous on 9: "7\tsame.png\tG"`, `8: cells_count on 10: "8\n"`,
				`9: ["" "shop/c.webp" "" "/9"]`, `10: ["" "shop/x/same.png" "" "/10"]`, `11: ["" "shop/y/same.png" "" "/11"]`,
			},
		},
		{
			"JSON lines", "shop/m.ndjson", `{"file":"a.png","n":[1]}` + "\n" + `{"image":7,"photo":"ä.jpg"}` + "\n" + `[]` + "\n" + `{"n":1}` + "\n" +
				`{"file":"c.webp","image_link":1}`, nil,
			[]string{
				`1: {"file":"a.png","n":[1],"image_link":"/1"}`, `2: {"image":7,"photo":"ä.jpg","image_link":"/2"}`,
				`3: not_an_object on 3: "[]\n"`, `4: image_missing on 4: "{\"n\":1}"`,
				`5: member_twice on 5: "{\"file\":\"c.webp\",\"image_link\":1}"`,
				`6: {"image":"shop/old/b.gif","image_link":"/6"}`, `7: {"image":"shop/x/same.png","image_link":"/7"}`,
				`8: {"image":"shop/y/same.png","image_link":"/8"}`,
			},
		},
		{
			"a list", "shop/m.json", " [ {\"image\": \"a.png\", \"t\": \"x, ]\\\"\\\\\"},\n{\"image\":\n\"old/b.gif\"} , 7,{\"a\nb\":1}, ,{} ]", nil,
			[]string{
				`1: {"image":"a.png","t":"x, ]\"\\","image_link":"/1"}`, `2: {"image":"old/b.gif","image_link":"/2"}`,
				`3: not_an_object on 3: " 7\n"`, `4: not_json on 4: "{\"a\x01b\":1}\n"`, `5: not_json on 5: " ,\n"`,
				`6: image_missing on 6: "{}"`,
				`7: {"image":"shop/ä.jpg","image_link":"/7"}`, `8: {"image":"shop/c.webp","image_link":"/8"}`,
				`9: {"image":"shop/x/same.png","image_link":"/9"}`, `10: {"image":"shop/y/same.png","image_link":"/10"}`,
			},
		},
	} {
		file := zipOf(t, nil, append(slices.Clone(images), packed{c.name, c.content})...)
		header, rows := zipRows(t, file, Format{Kind: Zip}, ZipConfig{})
		if !slices.Equal(header, c.header) || !slices.Equal(rows, c.rows) {
			t.Errorf("%s: %q\n%s\nwant %q\n%s", c.what, header, strings.Join(rows, "\n"), c.header, strings.Join(c.rows, "\n"))
		}
	}
	if header, rows := zipRows(t, zipOf(t, nil, images[:2]...), Format{Kind: Zip}, ZipConfig{}); !slices.Equal(header, []string{"image", "image_link"}) ||
		!slices.Equal(rows, []string{`1: ["shop/a.png" "/1"]`, `2: ["shop/ä.jpg" "/2"]`}) {
		t.Errorf("without metadata: %q %q", header, rows)
	}
}

// TestZipColumn: the mapping may say which column names images, and the encoding and the delimiter of the metadata are
// found out or taken.
func TestZipColumn(t *testing.T) {
	of := func(name, content string) []byte { return zipOf(t, nil, packed{"ä.png", png}, packed{name, content}) }
	for _, c := range []struct {
		what string
		file []byte
		f    Format
		cfg  ZipConfig
		rows []string
	}{
		{"its own column", of("m.csv", "a,Bild\n1,ä.png\n"), Format{}, ZipConfig{Column: "Bild"}, []string{`1: ["1" "ä.png" "/1"]`}},
		{"its own member", of("m.jsonl", `{"Bild":"ä.png"}`), Format{}, ZipConfig{Column: "Bild"}, []string{`1: {"Bild":"ä.png","image_link":"/1"}`}},
		{"no column", of("m.csv", "a,Bild\n1,ä.png\n"), Format{}, ZipConfig{}, []string{
			`"m.csv" has no column that names images, such as image or file: say which one does with image in the mapping`,
		}},
		{"another column", of("m.csv", "image\nä.png\n"), Format{}, ZipConfig{Column: "Bild"}, []string{
			`"m.csv" has no column "Bild", which the mapping has for image`,
		}},
		{"cp1252", of("m.csv", "image\n\xe4.png\n"), Format{}, ZipConfig{}, []string{`1: ["ä.png" "/1"]`}},
		{"decomposed", of("m.csv", "image\na\u0308.png\n"), Format{}, ZipConfig{}, []string{`1: ["a` + "\u0308" + `.png" "/1"]`}},
		{"said", of("m.tsv", "image;x\n\x84.png;1|2\n"), Format{Encoding: "ibm866", Delimiter: ';'}, ZipConfig{Column: "x"}, []string{
			`1: image_missing on 2: "Д.png\t1|2"`, `2: ["" "ä.png" "/2"]`,
		}},
		{"known rows", of("m.csv", "image\nä.png\n"), Format{}, ZipConfig{Known: 1}, []string{`1: ["ä.png" "/1"]`}},
		{"no header", of("m.csv", ""), Format{}, ZipConfig{}, []string{"the file has no line with the names of its columns"}},
		{"a list without end", of("m.json", `[{"image":"ä.png"},`), Format{}, ZipConfig{}, []string{
			`1: {"image":"ä.png","image_link":"/1"}`, "the list of objects has no end",
		}},
	} {
		c.f.Kind = Zip
		if _, rows := zipRows(t, c.file, c.f, c.cfg); !slices.Equal(rows, c.rows) {
			t.Errorf("%s: %q, want %q", c.what, rows, c.rows)
		}
	}
	two := zipOf(t, nil, packed{"a.csv", "image\n"}, packed{"b.json", "[]"}, packed{"c.png", png})
	if _, rows := zipRows(t, two, Format{Kind: Zip}, ZipConfig{}); len(rows) != 1 || !strings.Contains(rows[0], "name one of them metadata") {
		t.Error(rows)
	}
	named := zipOf(t, nil, packed{"a.csv", "image\n"}, packed{"Metadata.JSON", `[{"image":"c.png"}]`}, packed{"c.png", png})
	if _, rows := zipRows(t, named, Format{Kind: Zip}, ZipConfig{}); !slices.Equal(rows, []string{
		`1: {"image":"c.png","image_link":"/1"}`, `2: not_an_image on 0: "{\"image\":\"a.csv\"}"`,
	}) {
		t.Errorf("%q", rows)
	}
}

// TestZipBad: whatever is wrong with a file of a zip, its row is rejected with the reason, and the others are as they are (2).
func TestZipBad(t *testing.T) {
	for _, c := range []struct {
		name, content string
		change        func(*zip.FileHeader)
		code, text    string
	}{
		{"../x.png", png, nil, "path", "leads out of the zip"},
		{"a/../../x.png", png, nil, "path", "leads out of the zip"},
		{"/etc/x.png", png, nil, "path", "leads out of the zip"},
		{"C:/x.png", png, nil, "path", "leads out of the zip"},
		{`..\x.png`, png, nil, "path", "backslash"},
		{`a\x.png`, png, nil, "path", "backslash"},
		{"a\x00.png", png, nil, "path", "control character"},
		{"a\n.png", png, nil, "path", "control character"},
		{"\xff.png", png, func(h *zip.FileHeader) { h.Flags |= 0x800 }, "path", "not UTF-8"},
		{"x.png", png, func(h *zip.FileHeader) { h.SetMode(os.ModeSymlink | 0o777) }, "link", "is a link or a device"},
		{"x.png", png, func(h *zip.FileHeader) { h.Flags |= 1 }, "encrypted", "is encrypted"},
		{"x.png", png, func(h *zip.FileHeader) { h.Method = 12 }, "method", "method 12"},
		{"x.png", png, func(h *zip.FileHeader) { h.CRC32++ }, "image_damaged", "checksum"},
		{"x.png", png, func(h *zip.FileHeader) { h.UncompressedSize64++ }, "image_damaged", "length"},
		{"x.png", png + strings.Repeat("x", 5000), func(h *zip.FileHeader) { h.UncompressedSize64 = 4000 }, "image_damaged", "length"},
		{"x.png", png + strings.Repeat("x", 5000), func(h *zip.FileHeader) { h.CompressedSize64 -= 3 }, "image_damaged", "length"},
		{"x.png", png, func(h *zip.FileHeader) { h.Method = zip.Store }, "image_damaged", "length"},
		{"x.png", "", nil, "not_an_image", "is empty"},
		{"x.png", "<svg xmlns='http://www.w3.org/2000/svg'><script>1</script></svg>", nil, "not_an_image", "is no image"},
		{"x.png", "<!DOCTYPE html><script>1</script>", nil, "not_an_image", "text/html"},
		{"x.png", "GIF", nil, "not_an_image", "text/plain"},
		{"x.zip", string(zipOf(t, nil, packed{"a", "b"})), nil, "nested", "a zip within the zip"},
		{"x.png", png + strings.Repeat("\x00", 2<<20), nil, "ratio", "more than 200 times"},
		{"x.png", png, func(h *zip.FileHeader) { h.UncompressedSize64 = maxImage + 1 }, "image_size", "an image may have"},
	} {
		file := zipOf(t, func(h *zip.FileHeader) {
			if c.change != nil && h.Name == c.name {
				c.change(h)
			}
		}, packed{"good.jpg", jpeg}, packed{c.name, c.content}, packed{"last.jpg", jpeg})
		r, err := OpenZip(bytes.NewReader(file), int64(len(file)), Format{Kind: Zip}, ZipConfig{Link: func(int64) string { return "" }})
		if err != nil {
			t.Errorf("%q: %v", c.name, err)
			continue
		}
		for n := range 3 {
			row, err := r.Next()
			if err != nil {
				t.Fatalf("%q: %v", c.name, err)
			}
			switch {
			case n != 1 && row.Fault != nil:
				t.Errorf("%q: row %d: %v", c.name, row.No, row.Fault)
			case n == 1 && (row.Fault == nil || row.Fault.Code != c.code || !strings.Contains(row.Fault.Text, c.text)):
				t.Errorf("%q is %v, want %s: …%s…", c.name, row.Fault, c.code, c.text)
			}
		}
	}
	twice := zipOf(t, nil, packed{"a.png", png + "1"}, packed{"a.png", png + "22"}, packed{"metadata.csv", "image\na.png\n"})
	if _, rows := zipRows(t, twice, Format{Kind: Zip}, ZipConfig{}); !slices.Equal(rows, []string{
		`1: ["a.png" "/1"]`, `2: image_twice on 0: "a.png"`,
	}) {
		t.Errorf("%q", rows)
	}
	pc := zipOf(t, nil, packed{"\x84.png", png})
	if _, rows := zipRows(t, pc, Format{Kind: Zip}, ZipConfig{}); !slices.Equal(rows, []string{`1: ["ä.png" "/1"]`}) {
		t.Errorf("in the code page of the PC: %q", rows)
	}
}

// TestZipRefused: of some zips nothing is read, and the error says why. Little is held of them (3).
func TestZipRefused(t *testing.T) {
	bomb := strings.Repeat("\x00", 8<<20)
	var bombs, many []packed
	for i := range 17 {
		bombs = append(bombs, packed{fmt.Sprint(i, ".png"), bomb})
	}
	for i := range maxEntries + 1 {
		many = append(many, packed{name: fmt.Sprint(i)})
	}
	good := zipOf(t, nil, packed{"a.png", png})
	for _, c := range []struct {
		what string
		file []byte
		text string
	}{
		{"no zip", []byte("PK\x03\x04 and so on"), "the file is no zip"},
		{"cut", good[:len(good)-10], "the file is no zip"},
		{"empty", zipOf(t, nil), "the zip has no file"},
		{"a bomb", zipOf(t, nil, bombs...), "unpacks to more than 200 times its bytes"},
		{"a larger one", zipOf(t, func(h *zip.FileHeader) { h.UncompressedSize64 = maxAll/2 + 1 }, packed{"a", ""}, packed{"b", ""}), "unpack to more than"},
		{"one beyond 64 bits", zipOf(t, func(h *zip.FileHeader) { h.UncompressedSize64 = 1<<64 - 5 }, packed{"a", ""}, packed{"b", ""}), "unpack to more than"},
		{"many files", zipOf(t, nil, many...), "the zip has 100001 files"},
		{"long names", zipOf(t, nil, slices.Repeat([]packed{{name: strings.Repeat("a", 60_000)}}, 300)...), "the directory of the zip has more than"},
		{"encrypted metadata", zipOf(t, func(h *zip.FileHeader) { h.Flags |= 1 }, packed{"m.csv", "image\n"}), "is encrypted"},
		{"damaged metadata", zipOf(t, func(h *zip.FileHeader) { h.CRC32++ }, packed{"m.csv", "image\n"}), `"m.csv" cannot be read`},
	} {
		_, rows := zipRows(t, c.file, Format{Kind: Zip}, ZipConfig{})
		if len(rows) != 1 || !strings.Contains(rows[0], c.text) {
			t.Errorf("%s: %.200q, want %s", c.what, rows, c.text)
		}
	}
}

// failingAt fails to read behind a place.
type failingAt struct {
	io.ReaderAt
	behind int64
}

var errAway = errors.New("the storage is away")

func (f failingAt) ReadAt(p []byte, off int64) (int, error) {
	if off+int64(len(p)) > f.behind && off < f.behind+50_000 {
		return 0, errAway
	}
	return f.ReaderAt.ReadAt(p, off)
}

// TestZipAway: a storage that is away is not taken for a zip that is damaged.
func TestZipAway(t *testing.T) {
	noise := make([]byte, 100_000)
	for i := range noise {
		noise[i] = byte(crc32.ChecksumIEEE(noise[:i%100]) >> (i % 24))
	}
	file := zipOf(t, nil, packed{"a.png", png + string(noise)}, packed{"b.png", png + string(noise)})
	for _, behind := range []int64{0, 1000, int64(len(file)) - 10} {
		r, err := OpenZip(failingAt{bytes.NewReader(file), behind}, int64(len(file)), Format{Kind: Zip},
			ZipConfig{Link: func(int64) string { return "" }})
		for err == nil {
			_, err = r.Next()
		}
		if !errors.Is(err, errAway) {
			t.Errorf("behind %d: %v", behind, err)
		}
	}
}

// FuzzZip: no file makes the reader fail otherwise than it says, and the same file gives the same rows (4).
func FuzzZip(f *testing.F) {
	f.Add(zipOf(f, nil, packed{"a.png", png}, packed{"m.json", `[{"image":"a.png"}]`}))
	f.Add(zipOf(f, nil, packed{"../a.png", png}, packed{"m.csv", "image\na.png\n"}))
	f.Fuzz(func(t *testing.T, file []byte) {
		_, one := zipRows(t, file, Format{Kind: Zip}, ZipConfig{})
		if _, two := zipRows(t, file, Format{Kind: Zip}, ZipConfig{}); !slices.Equal(one, two) {
			t.Errorf("%q, and then %q", one, two)
		}
	})
}
