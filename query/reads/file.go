package reads

import (
	"context"
	"io"
	"mime"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace-io/millrace/internal/httpapi"
)

// File is an answer that is written as it is made, and that callers keep.
type File struct {
	Name        string // such as events.csv
	ContentType string
	// Write writes the file. It is called once. Its context ends when the caller
	// has gone and when the server ends, and has ended already where nobody wants
	// the body; API.Limit does not bound it. After an error the connection is
	// cut, so that nobody takes a part for the whole.
	Write func(ctx context.Context, w io.Writer) error
}

// fileOutput is a File as huma writes it.
type fileOutput struct {
	ContentType string `header:"Content-Type"`
	Disposition string `header:"Content-Disposition" doc:"attachment, with the file's name"`
	Body        func(huma.Context)
}

// GetFile is Get for an operation that answers with a file of one of some content
// types. API.Limit bounds do, which checks the request and says what to write.
func GetFile[In any, P Request[In], S any](
	api API, rules S, name, path, summary string, contentTypes []string,
	do func(context.Context, In) (File, error),
) {
	op := operation(api, rules, name, path, summary)
	content := map[string]*huma.MediaType{}
	for _, t := range contentTypes {
		content[t] = &huma.MediaType{Schema: &huma.Schema{Type: huma.TypeString, Format: "binary"}}
	}
	op.Responses = map[string]*huma.Response{"200": {Description: "The file", Content: content}}
	huma.Register(api.Server.API(), op, func(ctx context.Context, in *In) (*fileOutput, error) {
		timer := prometheus.NewTimer(api.Took.WithLabelValues(name))
		limited, cancel := context.WithTimeout(ctx, api.Limit)
		defer cancel()
		file, err := do(limited, *in)
		if err != nil {
			timer.ObserveDuration()
			return nil, api.Problem(err)
		}
		return &fileOutput{
			ContentType: file.ContentType,
			Disposition: mime.FormatMediaType("attachment", map[string]string{"filename": file.Name}),
			Body: func(ctx huma.Context) {
				defer timer.ObserveDuration()
				writeFile(api, ctx, file)
			},
		}, nil
	})
}

func writeFile(api API, hctx huma.Context, file File) {
	ctx, cancel := context.WithCancel(hctx.Context())
	defer cancel()
	if hctx.Method() == http.MethodHead {
		cancel()
		_ = file.Write(ctx, io.Discard)
		return
	}
	go func() {
		select {
		case <-api.Server.Draining():
			cancel()
		case <-ctx.Done():
		}
	}()
	if err := file.Write(ctx, hctx.BodyWriter()); err != nil {
		httpapi.Abort(api.Problem(err))
	}
}
