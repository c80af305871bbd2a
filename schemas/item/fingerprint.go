package item

import (
	"crypto/sha256"
	"encoding/binary"
	"regexp"
	"strings"
)

// NoError is the fingerprint of an empty error.
const NoError = "without an error"

var (
	address = regexp.MustCompile(`(?i)\b[a-z][a-z0-9+.-]*://[^\s"')]+`)
	uuid    = regexp.MustCompile(`(?i)\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b`)
	hex     = regexp.MustCompile(`(?i)\b[0-9a-f]{8,}\b`)
	number  = regexp.MustCompile(`[0-9]+(?:[.:][0-9]+)*`)
)

const digits = "0123456789"

// Fingerprint returns an error with what differs from one failure to the next made alike:
// addresses ‹url›, UUIDs and hexadecimal ids ‹id›, numbers ‹n›. White space is one
// space.
func Fingerprint(err string) string {
	err = strings.Join(strings.Fields(err), " ")
	if err == "" {
		return NoError
	}
	if strings.Contains(err, "://") {
		err = address.ReplaceAllLiteralString(err, "‹url›")
	}
	if !strings.ContainsAny(err, digits) {
		return err
	}
	err = uuid.ReplaceAllLiteralString(err, "‹id›")
	err = hex.ReplaceAllStringFunc(err, func(id string) string {
		if strings.ContainsAny(id, digits) {
			return "‹id›"
		}
		return id // a word
	})
	return number.ReplaceAllLiteralString(err, "‹n›")
}

// FingerprintHash is a number that stands for a fingerprint, where the text would be too long.
func FingerprintHash(fingerprint string) int64 {
	sum := sha256.Sum256([]byte(fingerprint))
	return int64(binary.BigEndian.Uint64(sum[:8]))
}
