// Package object names objects of storages. It imports the standard library alone.
package object

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
	MaxBucket = 63
)

// Name is the name of an object.
type Name struct{ Bucket, Key string }

func (o Name) String() string { return o.Bucket + "/" + o.Key }

var bucketName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{1,62}$`)

// ParsePath reads bucket/key. [Name.Check] says whether that is a name.
func ParsePath(path string) Name {
	bucket, key, _ := strings.Cut(path, "/")
	return Name{bucket, key}
}

// Check returns the rule that the object's name breaks, or nil. What keeps it stays
// within its bucket, wherever the bucket is.
func (o Name) Check() error {
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
