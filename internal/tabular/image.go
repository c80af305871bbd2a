package tabular

import (
	"bufio"
	"compress/flate"
	"errors"
	"hash"
	"hash/crc32"
	"io"
	"net/http"
	"strings"
)

// Image is a file of a zip, and where it is there.
type Image struct {
	Name     string // its path in the zip
	Type     string // such as image/png, by its first bytes; empty: it was not looked at
	Size     int64  // bytes
	At       int64  // where it begins in the zip
	Packed   int64  // bytes that it has there
	Deflated bool   // and else it is stored as it is
	CRC      uint32
}

// ErrImage is the error of a file of a zip that is not what the zip says of it.
var ErrImage = errors.New("its content has not the length or the checksum that the zip has for it")

// Open reads the file from the zip. Its last read fails where it is not as it was packed.
func (i Image) Open(zip io.ReaderAt) io.ReadCloser {
	packed := bufio.NewReaderSize(io.NewSectionReader(zip, i.At, i.Packed), 16<<10)
	c := &content{from: io.NopCloser(packed), image: i, sum: crc32.NewIEEE()}
	if i.Deflated {
		c.from = flate.NewReader(packed)
	}
	return c
}

// content compares a file with its length and its checksum.
type content struct {
	from  io.ReadCloser
	image Image
	sum   hash.Hash32
	size  int64
}

// Read implements io.Reader.
func (c *content) Read(p []byte) (int, error) {
	n, err := c.from.Read(p)
	c.size += int64(n)
	_, _ = c.sum.Write(p[:n]) // it never fails
	ended := errors.Is(err, io.EOF)
	switch {
	case c.size > c.image.Size, ended && (c.size < c.image.Size || c.sum.Sum32() != c.image.CRC),
		errors.Is(err, io.ErrUnexpectedEOF):
		return 0, ErrImage
	}
	return n, err
}

// Close implements io.Closer.
func (c *content) Close() error { return c.from.Close() }

// sniffed is how many first bytes tell what a file is.
const sniffed = 512

// imageType is the type of an image by its first bytes; empty: it is not one that is known.
func imageType(head []byte) string {
	text := string(head)
	switch t := http.DetectContentType(head); t {
	case "image/png", "image/jpeg", "image/gif", "image/webp", "image/bmp":
		return t
	}
	if strings.HasPrefix(text, "II*\x00") || strings.HasPrefix(text, "MM\x00*") {
		return "image/tiff"
	}
	if len(text) < 12 || text[4:8] != "ftyp" {
		return ""
	}
	switch text[8:12] {
	case "avif", "avis":
		return "image/avif"
	case "heic", "heix", "hevc", "hevx", "mif1", "msf1":
		return "image/heic"
	}
	return ""
}
