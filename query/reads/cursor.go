package reads

import (
	"encoding/base64"
	"encoding/binary"
	"hash/crc32"
)

// cursorSize is how many bytes a cursor has: a kind, two numbers, and a checksum
// that finds mistyped ones. Its text is their base64url.
const cursorSize = 1 + 8 + 8 + 4

// EncodeCursor names the last row of a page by two numbers. The kind, a number
// that is used once, tells the orders of rows apart, and versions of cursors.
func EncodeCursor(kind byte, a, b uint64) string {
	out := []byte{kind}
	out = binary.BigEndian.AppendUint64(out, a)
	out = binary.BigEndian.AppendUint64(out, b)
	out = binary.BigEndian.AppendUint32(out, crc32.ChecksumIEEE(out))
	return base64.RawURLEncoding.EncodeToString(out)
}

// DecodeCursor reads what EncodeCursor has written; false for anything else.
func DecodeCursor(kind byte, text string) (a, b uint64, ok bool) {
	if len(text) != base64.RawURLEncoding.EncodedLen(cursorSize) {
		return 0, 0, false
	}
	in, err := base64.RawURLEncoding.Strict().DecodeString(text)
	// Line breaks are skipped by the decoder: as many characters may be fewer bytes.
	if err != nil || len(in) != cursorSize || in[0] != kind {
		return 0, 0, false
	}
	if binary.BigEndian.Uint32(in[cursorSize-4:]) != crc32.ChecksumIEEE(in[:cursorSize-4]) {
		return 0, 0, false
	}
	return binary.BigEndian.Uint64(in[1:]), binary.BigEndian.Uint64(in[9:]), true
}
