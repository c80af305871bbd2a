package uploads

import (
	"encoding/base64"
	"encoding/hex"
	"strings"

	"github.com/millrace-io/millrace/internal/uploads"

	schema "github.com/millrace-io/millrace/schemas/uploads"
)

// maxMetadata is the size of Upload-Metadata, in bytes.
const maxMetadata = 32 << 10

// parseMetadata parses Upload-Metadata. The protocol's own parser leaves out what it does not understand.
func (f *form) parseMetadata(headers []string) map[string]string {
	text, all := strings.Join(headers, ","), map[string]string{}
	if len(text) > maxMetadata {
		f.wrong("Upload-Metadata", "length", "must be at most 32768 bytes")
		return all
	}
	for pair := range strings.SplitSeq(text, ",") {
		if pair = strings.TrimSpace(pair); pair == "" {
			continue
		}
		key, encoded, _ := strings.Cut(pair, " ")
		value, err := base64.StdEncoding.DecodeString(encoded)
		if err != nil {
			f.wrong(key, "base64", "must have a value in base64, behind one space")
		}
		if _, twice := all[key]; twice {
			f.wrong(key, "twice", "must be there once")
		}
		all[key] = string(value)
	}
	return all
}

// formOf returns what metadata says of a file, as a form does, and the digest that it has to have; nil: any.
func formOf(metadata map[string]string) (f form, file uploads.Received, sum []byte) {
	f = form{what: "Upload-Metadata", more: "filename, filetype, sha256", processor: schema.Copy}
	for name, value := range metadata {
		switch name {
		case "filename":
			file.FileName = value
		case "filetype": // clients send it by themselves, and it says less than the file's bytes
			if !plain(value) {
				f.wrong(name, "name", "must be at most 255 characters, without control characters")
			}
		case "sha256":
			var err error
			if sum, err = hex.DecodeString(value); err != nil || len(sum) != 32 {
				f.wrong(name, "sha256", "must have 64 hexadecimal digits")
			}
		default:
			f.set(name, value)
		}
	}
	return f, file, sum
}
