package httpapi

import (
	"bytes"
	"fmt"
	"io"

	"github.com/danielgtaylor/huma/v2"
)

// encoded is an answer of huma as JSON.
type encoded []byte

// encode encodes an answer before its status is sent: huma would encode into an answer
// with status 200 that has begun. If v cannot be encoded, it panics with the problem,
// which the frame answers.
func encode(_ huma.Context, _ string, v any) (any, error) {
	var text bytes.Buffer
	if err := huma.DefaultJSONFormat.Marshal(&text, v); err != nil {
		panic(unencodable(err))
	}
	return encoded(text.Bytes()), nil
}

// encodedFormat writes what encode returned.
var encodedFormat = huma.Format{
	Marshal: func(w io.Writer, v any) error {
		text, ok := v.(encoded)
		if !ok {
			return huma.DefaultJSONFormat.Marshal(w, v)
		}
		_, err := w.Write(text)
		return err
	},
	Unmarshal: decode,
}

func unencodable(err error) *Problem { return Internal(fmt.Errorf("encode the answer: %w", err)) }
