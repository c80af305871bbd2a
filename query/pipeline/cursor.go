package pipeline

import (
	"encoding/base64"
	"encoding/binary"
	"hash/crc32"

	"github.com/millrace-io/millrace/internal/httpapi"
	"github.com/millrace-io/millrace/query/pipeline/store"
)

// A cursor is the position of a page's last row, base64url of: a byte that
// tells versions and kinds apart, two numbers, and a checksum that finds
// mistyped ones.
const (
	eventCursor   = 1
	stuckCursor   = 2
	slowestCursor = 3
	cursorSize    = 1 + 8 + 8 + 4
)

func encodePosition(kind byte, a, b uint64) string {
	out := []byte{kind}
	out = binary.BigEndian.AppendUint64(out, a)
	out = binary.BigEndian.AppendUint64(out, b)
	out = binary.BigEndian.AppendUint32(out, crc32.ChecksumIEEE(out))
	return base64.RawURLEncoding.EncodeToString(out)
}

func decodePosition(kind byte, text string) (a, b uint64, ok bool) {
	if len(text) != base64.RawURLEncoding.EncodedLen(cursorSize) {
		return 0, 0, false
	}
	in, err := base64.RawURLEncoding.Strict().DecodeString(text)
	// Line breaks are skipped by the decoder: as many characters may be fewer bytes.
	if err != nil || len(in) != cursorSize || in[0] != kind || binary.BigEndian.Uint32(in[cursorSize-4:]) != crc32.ChecksumIEEE(in[:cursorSize-4]) {
		return 0, 0, false
	}
	return binary.BigEndian.Uint64(in[1:]), binary.BigEndian.Uint64(in[9:]), true
}

func encodeCursor(p store.Position) string { return encodePosition(eventCursor, uint64(p.At), p.Seq) }

func decodeCursor(text string) (store.Position, bool) {
	at, seq, ok := decodePosition(eventCursor, text)
	p := store.Position{At: int64(at), Seq: seq}
	return p, ok && p.At >= 0 && p.Seq > 0
}

func encodeArticleCursor(kind byte, p store.ArticlePosition) string {
	return encodePosition(kind, uint64(p.At), p.ID)
}

func decodeArticleCursor(kind byte, text string) (store.ArticlePosition, bool) {
	at, id, ok := decodePosition(kind, text)
	p := store.ArticlePosition{At: int64(at), ID: id}
	return p, ok && p.At >= 0
}

// articleCursor reads the cursor of a request; without one, pages begin at
// first.
func articleCursor(text string, kind byte, first store.ArticlePosition) (store.ArticlePosition, *httpapi.Problem) {
	if text == "" {
		return first, nil
	}
	p, ok := decodeArticleCursor(kind, text)
	if !ok {
		return p, breaks("cursor", "cursor", "must be the next_cursor of a page")
	}
	return p, nil
}
