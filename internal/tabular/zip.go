package tabular

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"golang.org/x/text/unicode/norm"
)

// Zip is the kind of a zip of images, with what is known of them in a file of rows.
const Zip = "zip"

// Bounds of a zip of images.
const (
	maxEntries   = 100_000
	maxDirectory = 16 << 20 // bytes
	maxAll       = 8 << 30  // bytes of all files
	maxMetadata  = 1 << 30  // bytes
	// freeAll is how many bytes a zip may unpack to whatever the ratio is.
	freeAll = 128 << 20
)

// Names of columns that name the image of a row, the first one first, unless ZipConfig says which does.
var imageColumns = []string{"image", "file", "filename", "file_name", "image_file", "image_name", "photo", "picture"}

// LinkColumn is the column behind all others that has the link to the image of a row.
const LinkColumn = "image_link"

// ZipConfig shapes how a zip of images is read.
type ZipConfig struct {
	Column string                 // that names the image of a row; empty: the first of the usual names that there is
	Link   func(row int64) string // is where the image of a row is
	// Known is how many of the first rows are known to whoever reads: their images are not read again.
	Known int64
}

// zipReader reads a zip of images: a row for each row of the metadata, in their order, and then one for each file that
// no row names, in the order of the zip.
type zipReader struct {
	cfg    ZipConfig
	from   *bounded
	format Format
	rows   Reader // of the metadata; nil: there is none, or all are read
	about  string // the name of the metadata
	header []string
	column int // that names images, in header
	no     int64
	cells  []string

	entries []*entry
	byPath  map[string]*entry
	byBase  map[string]*entry // nil: there are several
	next    int               // of entries that may have no row yet
}

// OpenZip reads a zip of images. The format has the encoding and the delimiter of the metadata where these are given. It
// reads where the rows lead, and holds no image.
func OpenZip(from io.ReaderAt, size int64, f Format, cfg ZipConfig) (Reader, error) {
	z, source, err := directory(from, "zip", size, maxDirectory, maxEntries)
	if err != nil {
		return nil, err
	}
	r := &zipReader{cfg: cfg, from: source, format: f, byPath: map[string]*entry{}, byBase: map[string]*entry{}}
	var all uint64
	for _, file := range z.File {
		if e := newEntry(file); !leftOut(e.name) {
			r.entries = append(r.entries, e)
			if all += file.UncompressedSize64; file.UncompressedSize64 > maxAll || all > maxAll {
				return nil, tableErrorf("the files of the zip unpack to more than %d bytes", int64(maxAll))
			}
		}
	}
	switch {
	case len(r.entries) == 0:
		return nil, tableErrorf("the zip has no file")
	case all > freeAll && all/maxRatio > uint64(size):
		return nil, tableErrorf("the zip unpacks to more than %d times its bytes", maxRatio)
	}
	about, err := r.findMetadata()
	if err != nil {
		return nil, err
	}
	r.index(about)
	if err := r.openMetadata(about); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// findMetadata returns the file that has the rows; nil: there is none.
func (r *zipReader) findMetadata() (*entry, error) {
	var found, named []*entry
	for _, e := range r.entries {
		ext := strings.ToLower(path.Ext(e.name))
		if e.fault != nil && e.fault.Code == "path" || !slices.Contains(metadataTypes, ext) {
			continue
		}
		found = append(found, e)
		if base := path.Base(e.name); strings.EqualFold(base[:len(base)-len(ext)], "metadata") {
			named = append(named, e)
		}
	}
	if len(named) > 0 {
		found = named
	}
	switch len(found) {
	case 0:
		return nil, nil
	case 1:
		return found[0], nil
	}
	return nil, tableErrorf("the zip has several files that may say what its images are, such as %.100q and %.100q: name one of "+
		"them metadata", found[0].name, found[1].name)
}

var metadataTypes = []string{".csv", ".tsv", ".ndjson", ".jsonl", ".json"}

// index makes images known by their names. Of several with one name, the first one is.
func (r *zipReader) index(about *entry) {
	r.entries = slices.DeleteFunc(r.entries, func(e *entry) bool { return e == about })
	for _, e := range r.entries {
		if e.fault != nil && e.fault.Code == "path" {
			continue
		}
		if r.byPath[e.name] != nil {
			e.fault = faultf("image_twice", "the zip has %.200q twice, and the first one counts", e.name)
			continue
		}
		r.byPath[e.name] = e
		if e.fault == nil {
			e.fault = sizeFault(e.file, e.name)
		}
		base := path.Base(e.name)
		if _, there := r.byBase[base]; there {
			e = nil
		}
		r.byBase[base] = e
	}
}

// openMetadata begins to read the rows, and finds out which column names images.
func (r *zipReader) openMetadata(e *entry) error {
	if e == nil {
		r.header, r.format = []string{imageColumns[0], LinkColumn}, Format{Kind: Zip}
		return nil
	}
	r.about = e.name
	switch {
	case e.fault != nil:
		return &ErrTable{e.fault.Text}
	case e.file.UncompressedSize64 > maxMetadata:
		return tableErrorf("%.100q unpacks to more than %d bytes", e.name, maxMetadata)
	}
	image, err := e.image()
	if err != nil {
		return r.broken(err)
	}
	var sniff Sniffer
	if _, err := io.Copy(&sniff, image.Open(r.from)); err != nil {
		return r.broken(err)
	}
	inner, err := sniff.Sniff(e.name, metadataKind(e.name), r.format.Encoding, r.format.Delimiter)
	if err != nil {
		return err
	}
	r.format = inner
	r.format.Kind = Zip
	var text io.Reader = image.Open(r.from)
	if inner.Kind == Lines {
		if text, err = Decoded(text, inner.Encoding); err == nil {
			r.rows = newLineReader(newElements(text), inner)
		}
		return err
	}
	if r.rows, err = Open(text, inner, ""); err != nil {
		r.rows = nil
		return r.broken(err)
	}
	return r.findColumn()
}

func metadataKind(name string) string {
	if ext := strings.ToLower(path.Ext(name)); ext == ".csv" || ext == ".tsv" {
		return CSV
	}
	return Lines
}

// findColumn finds the column that names images.
func (r *zipReader) findColumn() error {
	keys := Keys(r.rows.Header())
	r.header = append(slices.Clone(r.rows.Header()), LinkColumn)
	names := imageColumns
	if r.cfg.Column != "" {
		names = []string{r.cfg.Column}
	}
	for _, name := range names {
		r.column = slices.IndexFunc(keys, func(key string) bool {
			return key == name || r.cfg.Column == "" && strings.EqualFold(strings.TrimSpace(key), name)
		})
		if r.column >= 0 {
			return nil
		}
	}
	if r.cfg.Column != "" {
		return tableErrorf("%.100q has no column %.100q, which the mapping has for image", r.about, r.cfg.Column)
	}
	return tableErrorf("%.100q has no column that names images, such as image or file: say which one does with image in the mapping",
		r.about)
}

// broken is the error of a zip whose metadata cannot be read.
func (r *zipReader) broken(err error) error {
	var table *ErrTable
	switch {
	case r.from.err != nil:
		return r.from.err
	case errors.As(err, &table):
		return err
	}
	return tableErrorf("%.100q cannot be read: %v", r.about, err)
}

func (r *zipReader) Header() []string { return r.header }

// Format has the encoding and the delimiter with which the metadata is read.
func (r *zipReader) Format() Format { return r.format }

// Next implements Reader.
func (r *zipReader) Next() (Row, error) {
	if r.rows != nil {
		row, err := r.rows.Next()
		if err == nil {
			r.no++
			return r.described(row)
		}
		if !errors.Is(err, io.EOF) {
			return Row{}, r.broken(err)
		}
		if err := r.Close(); err != nil {
			return Row{}, err
		}
	}
	for r.next < len(r.entries) {
		e := r.entries[r.next]
		if r.next++; e.row == 0 {
			r.no++
			return r.alone(e)
		}
	}
	return Row{}, io.EOF
}

// described is a row of the metadata with its image.
func (r *zipReader) described(row Row) (Row, error) {
	row.No = r.no
	if row.Fault != nil {
		return row, nil
	}
	name, fault := r.imageName(row)
	var e *entry
	if fault == nil {
		e, fault = r.find(name)
	}
	if fault == nil {
		fault, e.row = e.fault, r.no
	}
	return r.finish(row, e, fault)
}

// finish reads the image of a row that has no fault, and adds its link.
func (r *zipReader) finish(row Row, e *entry, fault *Fault) (_ Row, err error) {
	if fault == nil {
		var image Image
		if r.no > r.cfg.Known {
			if image, fault, err = e.check(r.from); err != nil {
				return Row{}, err
			}
		}
		row.Image = &image
	}
	if fault == nil && row.Object != nil {
		row.Object, fault = withLink(row.Object, r.cfg.Link(r.no))
	}
	if fault != nil {
		raw := []byte(cmp.Or(string(row.Object), strings.Trim(strings.Join(row.Cells, "\t"), "\t")))
		return Row{No: row.No, Line: row.Line, Fault: fault, Raw: raw[:min(len(raw), MaxRaw)]}, nil
	}
	if row.Object == nil {
		r.cells = append(append(r.cells[:0], row.Cells...), r.cfg.Link(r.no))
		row.Cells = r.cells
	}
	return row, nil
}

// withLink adds the link to an object.
func withLink(object []byte, link string) (json.RawMessage, *Fault) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(object, &members); err != nil {
		return object, faultf("not_json", "the row is not JSON: %v", err)
	}
	if _, there := members[LinkColumn]; there {
		return object, faultf("member_twice", "the row has the member %s, which is that of the link to its image", LinkColumn)
	}
	value, _ := json.Marshal(link) // a text always is JSON
	out := append(bytes.TrimSuffix(bytes.Clone(object), []byte("}")), ',')
	return append(append(out, `"`+LinkColumn+`":`...), append(value, '}')...), nil
}

// imageName is the name that a row of the metadata has for its image.
func (r *zipReader) imageName(row Row) (name string, fault *Fault) {
	if row.Object == nil {
		name = row.Cells[r.column]
	} else {
		var members map[string]json.RawMessage
		if err := json.Unmarshal(row.Object, &members); err != nil {
			return "", faultf("not_json", "the row is not JSON: %v", err)
		}
		for _, key := range r.memberNames() {
			if value, there := members[key]; there && json.Unmarshal(value, &name) == nil {
				break
			}
		}
	}
	if name = strings.TrimSpace(name); name == "" {
		return "", faultf("image_missing", "the row names no image")
	}
	return name, nil
}

func (r *zipReader) memberNames() []string {
	if r.cfg.Column != "" {
		return []string{r.cfg.Column}
	}
	return imageColumns
}

// find returns the image of a name: its path in the zip, its path from where the metadata is, or the last part of its path
// where only one image has that.
func (r *zipReader) find(name string) (*entry, *Fault) {
	name = norm.NFC.String(strings.TrimPrefix(name, "./"))
	e := r.byPath[name]
	if e == nil {
		e = r.byPath[path.Join(path.Dir(r.about), name)]
	}
	if e == nil {
		var there bool
		if e, there = r.byBase[name]; there && e == nil {
			return nil, faultf("image_ambiguous", "the zip has several images %.200q: the row has to have the path of one", name)
		}
	}
	switch {
	case e == nil:
		return nil, faultf("image_missing", "the zip has no image %.200q", name)
	case e.row != 0:
		return nil, faultf("image_twice", "the image %.200q is that of row %d already", name, e.row)
	}
	return e, nil
}

// alone is the row of an image that no row of the metadata names: it has the name, and nothing else.
func (r *zipReader) alone(e *entry) (Row, error) {
	e.row = r.no
	row := Row{No: r.no}
	if r.header == nil {
		value, err := json.Marshal(map[string]string{r.memberNames()[0]: e.name})
		if err != nil {
			return Row{}, fmt.Errorf("name an image: %w", err)
		}
		row.Object = value
	} else {
		row.Cells = make([]string, len(r.header)-1)
		row.Cells[r.column] = e.name
	}
	return r.finish(row, e, e.fault)
}

// Close implements Reader.
func (r *zipReader) Close() error {
	rows := r.rows
	if r.rows = nil; rows == nil {
		return nil
	}
	return rows.Close()
}
