package query

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"hash/crc32"

	"github.com/millrace-io/millrace/internal/httpapi"
	"github.com/millrace-io/millrace/query/store"
)

// A cursor is the position of a page's last event, base64url of: a version
// byte, the two numbers, and a checksum that finds mistyped ones.
const (
	cursorVersion = 1
	cursorSize    = 1 + 8 + 8 + 4
)

func encodeCursor(p store.Position) string {
	b := []byte{cursorVersion}
	b = binary.BigEndian.AppendUint64(b, uint64(p.At))
	b = binary.BigEndian.AppendUint64(b, p.Seq)
	b = binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
	return base64.RawURLEncoding.EncodeToString(b)
}

func decodeCursor(text string) (store.Position, bool) {
	if len(text) != base64.RawURLEncoding.EncodedLen(cursorSize) {
		return store.Position{}, false
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || b[0] != cursorVersion || binary.BigEndian.Uint32(b[cursorSize-4:]) != crc32.ChecksumIEEE(b[:cursorSize-4]) {
		return store.Position{}, false
	}
	p := store.Position{At: int64(binary.BigEndian.Uint64(b[1:])), Seq: binary.BigEndian.Uint64(b[9:])}
	return p, p.At >= 0 && p.Seq > 0
}

// Kinds of cursors into articles, in the place of the version.
const (
	stuckCursor   = 2
	slowestCursor = 3
)

// The cursor of an article: its kind, the number that articles are ordered by,
// the hash, and a checksum.
const articleCursorSize = 1 + 8 + 32 + 4

func encodeArticleCursor(kind byte, p store.ArticlePosition) string {
	b := binary.BigEndian.AppendUint64([]byte{kind}, uint64(p.At))
	hash, _ := hex.DecodeString(p.Hash) // the database wrote it
	b = append(b, hash...)
	return base64.RawURLEncoding.EncodeToString(binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b)))
}

func decodeArticleCursor(kind byte, text string) (store.ArticlePosition, bool) {
	if len(text) != base64.RawURLEncoding.EncodedLen(articleCursorSize) {
		return store.ArticlePosition{}, false
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || b[0] != kind || binary.BigEndian.Uint32(b[articleCursorSize-4:]) != crc32.ChecksumIEEE(b[:articleCursorSize-4]) {
		return store.ArticlePosition{}, false
	}
	p := store.ArticlePosition{At: int64(binary.BigEndian.Uint64(b[1:])), Hash: hex.EncodeToString(b[9 : articleCursorSize-4])}
	return p, p.At >= 0
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
