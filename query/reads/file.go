package reads

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humachi"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace-io/millrace/internal/endpoint"
	"github.com/millrace-io/millrace/internal/httpapi"
)

// File is an answer that is written as it is made, and that callers keep.
type File struct {
	Name        string // such as events.csv
	ContentType string
	// Write writes the file. It is called once. Its context ends when the caller
	// has disconnected, or has read for too long or too slowly, and when the server
	// ends. It has ended already where nobody wants the body. After an error the
	// connection is closed, so that no caller takes a part for the whole file.
	Write func(ctx context.Context, w io.Writer) error
}

// fileOutput is a File as huma writes it.
type fileOutput struct {
	ContentType string `header:"Content-Type"`
	Disposition string `header:"Content-Disposition" doc:"attachment, with the file's name"`
	Body        func(huma.Context)
}

// Checksum is the trailer with the SHA-256 of a file in hexadecimal digits. It is sent behind
// a file that is whole, and is of the file as it is without compression on the way.
const Checksum = "Millrace-Sha256"

// maxFileTime bounds how long a file is written, and read.
const maxFileTime = 15 * time.Minute

var (
	errFileTime = httpapi.NewProblem(http.StatusServiceUnavailable, fmt.Sprintf(
		"the file was not read within %s: ask for less of it at a time", maxFileTime))
	errFileSlow = httpapi.NewProblem(http.StatusServiceUnavailable, fmt.Sprintf(
		"the file was read by less than %d KiB a second while others waited for their turn", slowRate>>10))
)

// GetFile is Get for an operation that answers with a file of one of some content
// types, each of which takes a place while it is written. The API's Limit bounds do, which
// checks the request and says what to write, and the wait for a place.
func GetFile[In any, P endpoint.Request[In], S any](
	api endpoint.API, rules S, name, path, summary string, contentTypes []string, places *Places,
	do func(context.Context, In) (File, error),
) {
	content := map[string]*huma.MediaType{}
	for _, t := range contentTypes {
		content[t] = &huma.MediaType{Schema: &huma.Schema{Type: huma.TypeString, Format: "binary"}}
	}
	answers := map[string]*huma.Response{"200": {
		Description: "The file. The trailer " + Checksum + " is its SHA-256, as sha256sum prints it.", Content: content,
	}}
	op := operation(api, rules, name, path, summary)
	endpoint.GetRaw[In, fileOutput, P](api, op, answers, func(ctx context.Context, in *In) (*fileOutput, error) {
		timer := prometheus.NewTimer(api.Took.WithLabelValues(name))
		limited, cancel := context.WithTimeout(ctx, api.Limit)
		defer cancel()
		leave, err := places.Enter(limited)
		if err != nil {
			timer.ObserveDuration()
			return nil, api.Problem(err)
		}
		file, err := do(limited, *in)
		if err != nil {
			leave()
			timer.ObserveDuration()
			return nil, api.Problem(err)
		}
		return &fileOutput{
			ContentType: file.ContentType,
			Disposition: mime.FormatMediaType("attachment", map[string]string{"filename": file.Name}),
			Body: func(ctx huma.Context) {
				defer timer.ObserveDuration()
				defer leave()
				writeFile(api, ctx, file, places)
			},
		}, nil
	})
}

func writeFile(api endpoint.API, hctx huma.Context, file File, places *Places) {
	timed, stop := context.WithTimeoutCause(hctx.Context(), maxFileTime, errFileTime)
	defer stop()
	ctx, cancel := context.WithCancelCause(timed)
	defer cancel(nil)
	if hctx.Method() == http.MethodHead {
		cancel(nil)
		_ = file.Write(ctx, io.Discard)
		return
	}
	go func() {
		select {
		case <-api.Server.Draining():
			cancel(nil)
		case <-ctx.Done():
		}
	}()
	_, w := humachi.Unwrap(hctx)
	w.Header().Set("Trailer", Checksum)
	// A write that waits for the reader ends, too.
	defer context.AfterFunc(ctx, func() { _ = http.NewResponseController(w).SetWriteDeadline(time.Now()) })()
	out, done := places.reading(hctx.BodyWriter(), func() { cancel(errFileSlow) })
	defer done()
	sum := sha256.New()
	if err := file.Write(ctx, io.MultiWriter(out, sum)); err != nil {
		if cause := (*httpapi.Problem)(nil); errors.As(context.Cause(ctx), &cause) {
			err = cause
		}
		told := httpapi.Internal(err)
		errors.As(api.Problem(err), &told)
		httpapi.Abort(told)
	}
	w.Header().Set(Checksum, hex.EncodeToString(sum.Sum(nil)))
}
