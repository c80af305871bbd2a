package batches

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Lengths of an object's name in bytes, as S3 has them.
const (
	MaxKey    = 1024
	maxBucket = 63
)

// Object is where the items of a batch are.
type Object struct{ Bucket, Key string }

func (o Object) String() string { return o.Bucket + "/" + o.Key }

var bucketName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{1,62}$`)

// parsePath reads bucket/key.
func parsePath(path string) Object {
	bucket, key, _ := strings.Cut(path, "/")
	return Object{bucket, key}
}

// Check returns the rule that the object's name breaks, or nil. What keeps it stays
// within its bucket, wherever the bucket is.
func (o Object) Check() error {
	switch {
	case !bucketName.MatchString(o.Bucket):
		return fmt.Errorf("the bucket %.80q must have 2 to 63 letters, digits, dots, hyphens and underscores, and "+
			"begin with a letter or digit", o.Bucket)
	case o.Key == "":
		return errors.New("the key is missing: want bucket/key")
	case len(o.Key) > MaxKey:
		return fmt.Errorf("the key must have at most %d bytes", MaxKey)
	case !utf8.ValidString(o.Key) || strings.ContainsFunc(o.Key, unicode.IsControl):
		return errors.New("the key must be valid UTF-8 without control characters")
	case strings.ContainsRune(o.Key, '\\'):
		return errors.New("the key must not contain backslashes")
	case slices.ContainsFunc(strings.Split(o.Key, "/"), func(s string) bool { return s == "" || s == "." || s == ".." }):
		return errors.New("no part of the key between slashes may be empty, or consist of one or two dots")
	}
	return nil
}
