package query

import (
	"encoding/base64"
	"encoding/binary"
	"hash/crc32"

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
