package tabular

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/unicode/norm"
)

// Bounds of a file of a zip.
const (
	maxImage = 64 << 20 // bytes
	maxRatio = 200      // bytes that one byte of a zip may become, of what has more than freeRatio bytes
	freeSize = 1 << 20
)

// entry is a file of a zip.
type entry struct {
	file  *zip.File
	name  string
	fault *Fault // that its row has, whatever is in it
	row   int64  // that has it; 0: none so far
}

func newEntry(f *zip.File) *entry {
	name, known := entryName(f)
	e := &entry{file: f, name: name}
	if !known {
		e.fault = faultf("path", "the name %.200q is not UTF-8, as the zip says it is", f.Name)
	} else {
		e.fault = entryFault(f, name)
	}
	return e
}

// entryName is the name of a file. One that is not said to be UTF-8 may be all the same, and is else in the code page of
// the PC.
func entryName(f *zip.File) (name string, known bool) {
	const saysUTF8 = 0x800
	if utf8.ValidString(f.Name) {
		return norm.NFC.String(f.Name), true
	}
	if f.Flags&saysUTF8 != 0 {
		return strings.ToValidUTF8(f.Name, "\ufffd"), false
	}
	name, err := charmap.CodePage437.NewDecoder().String(f.Name)
	return name, err == nil
}

// entryFault is what is wrong with a file by what the zip says of it.
func entryFault(f *zip.File, name string) *Fault {
	const encrypted = 1
	switch {
	case strings.ContainsFunc(name, unicode.IsControl):
		return faultf("path", "the name %.200q has a control character", name)
	case strings.Contains(name, `\`):
		return faultf("path", "the name %.200q has a backslash: a path in a zip has slashes", name)
	case strings.HasPrefix(name, "/"), len(name) > 1 && name[1] == ':', slices.Contains(strings.Split(name, "/"), ".."):
		return faultf("path", "the path %.200q leads out of the zip", name)
	case f.Flags&encrypted != 0:
		return faultf("encrypted", "%.200q is encrypted", name)
	case !f.Mode().IsRegular():
		return faultf("link", "%.200q is a link or a device, and no file", name)
	case f.Method != zip.Store && f.Method != zip.Deflate:
		return faultf("method", "%.200q is compressed by method %d: want it stored, or deflated", name, f.Method)
	}
	return nil
}

// sizeFault is what is wrong with the size of a file that is no metadata.
func sizeFault(f *zip.File, name string) *Fault {
	switch size := f.UncompressedSize64; {
	case size > maxImage:
		return faultf("image_size", "%.200q has %d bytes, and an image may have %d", name, size, maxImage)
	case size > freeSize && size/maxRatio > f.CompressedSize64:
		return faultf("ratio", "%.200q unpacks to more than %d times its bytes in the zip", name, maxRatio)
	}
	return nil
}

// leftOut tells of what is no file, and of what systems add to zips by themselves.
func leftOut(name string) bool {
	base := path.Base(name)
	return strings.HasSuffix(name, "/") || strings.HasPrefix(name, "__MACOSX/") || strings.HasPrefix(base, "._") ||
		slices.Contains([]string{".DS_Store", "Thumbs.db", "desktop.ini"}, base)
}

// image is where the content of a file is.
func (e *entry) image() (Image, error) {
	at, err := e.file.DataOffset()
	return Image{
		Name: e.name, Size: int64(e.file.UncompressedSize64), At: at, Packed: int64(e.file.CompressedSize64),
		Deflated: e.file.Method == zip.Deflate, CRC: e.file.CRC32,
	}, err
}

// check reads all of a file, and tells what it is.
func (e *entry) check(from *bounded) (i Image, fault *Fault, err error) {
	if i, err = e.image(); err == nil {
		i.Type, fault, err = sniffImage(i, from)
	}
	if from.err != nil {
		return i, nil, from.err
	}
	if err != nil {
		return i, faultf("image_damaged", "%.200q is damaged: %v", e.name, err), nil
	}
	return i, fault, nil
}

func sniffImage(i Image, from io.ReaderAt) (kind string, fault *Fault, err error) {
	all := i.Open(from)
	defer all.Close()
	head := make([]byte, sniffed)
	n, err := io.ReadFull(all, head)
	head = head[:n]
	if err == nil {
		_, err = io.Copy(io.Discard, all)
	}
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) { // these of short files
		return "", nil, err
	}
	kind = imageType(head)
	switch {
	case kind != "":
		return kind, nil, nil
	case len(head) == 0:
		return "", faultf("not_an_image", "%.200q is empty", i.Name), nil
	case bytes.HasPrefix(head, []byte("PK\x03\x04")):
		return "", faultf("nested", "%.200q is a zip within the zip", i.Name), nil
	}
	looks, _, _ := strings.Cut(http.DetectContentType(head), ";")
	return "", faultf("not_an_image", "%.200q is no image: its content looks like %s. Want PNG, JPEG, GIF, WebP, BMP, TIFF, "+
		"AVIF or HEIC", i.Name, looks), nil
}

// bounded reads a zip. It keeps the error of its storage, since those who read from it make others of it, and bounds
// how much is read while that is set. A zip that says that something is outside of it is broken; its storage is not.
type bounded struct {
	from io.ReaderAt
	size int64
	left int64 // bytes; below 0: any number
	err  error
}

var errDirectory = errors.New("the directory of the zip is too large")

// ReadAt implements io.ReaderAt.
func (b *bounded) ReadAt(p []byte, off int64) (int, error) {
	if b.left >= 0 {
		if b.left -= int64(len(p)); b.left < 0 {
			b.left = 0
			return 0, errDirectory
		}
	}
	if off < 0 || off > b.size {
		return 0, zip.ErrFormat
	}
	n, err := b.from.ReadAt(p, off)
	if err != nil && !errors.Is(err, io.EOF) {
		b.err = fmt.Errorf("read a zip: %w", err)
	}
	return n, err
}

// directory reads the directory of a zip, or what is one, which may have so many bytes and name so many files.
// The library itself holds all of a directory, however many files that names.
func directory(from io.ReaderAt, what string, size, most int64, files int) (*zip.Reader, *bounded, error) {
	const atEnd = 128 << 10 // what the library looks at to find the directory
	b := &bounded{from: from, size: size, left: most + atEnd}
	z, err := zip.NewReader(b, size)
	b.left = -1
	switch {
	case b.err != nil:
		return nil, b, b.err
	case errors.Is(err, errDirectory):
		return nil, b, tableErrorf("the directory of the %s has more than %d bytes", what, most)
	case err != nil:
		return nil, b, tableErrorf("the file is no %s: %v", what, err)
	case len(z.File) > files:
		return nil, b, tableErrorf("the %s has %d files, and at most %d are read", what, len(z.File), files)
	}
	return z, b, nil
}
