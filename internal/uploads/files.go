package uploads

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/google/uuid"

	"github.com/millrace-io/millrace/internal/objects"
	"github.com/millrace-io/millrace/internal/tabular"
	"github.com/millrace-io/millrace/schemas/object"
)

// Files keeps the files of jobs.
type Files struct{ storage *objects.NATS }

// NewFiles keeps files in a storage.
func NewFiles(storage *objects.NATS) *Files { return &Files{storage} }

// bucket begins with an underscore, which no other request can name.
const bucket = "_uploads"

func file(id uuid.UUID) object.Name { return object.Name{Bucket: bucket, Key: id.String()} }

// ErrTooLarge is the error of a file with too many bytes.
var ErrTooLarge = objects.ErrTooLarge

// Errors of files that come in parts.
var (
	ErrMoved        = objects.ErrMoved
	ErrTooManyParts = objects.ErrTooManyParts
)

// Put stores the file of a job, once.
func (f *Files) Put(ctx context.Context, id uuid.UUID, limit int64, from io.Reader) (objects.Stored, error) {
	return f.storage.PutAs(ctx, file(id), id.String(), limit, from)
}

// Partial returns what is stored of the file of a job that comes in parts.
func (f *Files) Partial(ctx context.Context, id uuid.UUID) (*objects.Partial, error) {
	return f.storage.Partial(ctx, file(id), id.String())
}

// Append stores what comes next of the file of a job, of at most limit bytes in all.
func (f *Files) Append(ctx context.Context, id uuid.UUID, limit int64, part *objects.Partial, from io.Reader) error {
	return f.storage.Append(ctx, file(id), id.String(), limit, part, from)
}

// Finish makes the file of a job of its parts. It may be called again.
func (f *Files) Finish(ctx context.Context, id uuid.UUID, part *objects.Partial) (objects.Stored, error) {
	return f.storage.Finish(ctx, file(id), id.String(), part)
}

// Open reads the file of a job. Reading ends with an error where the file is not as it was stored.
func (f *Files) Open(ctx context.Context, id uuid.UUID) (io.ReadCloser, error) {
	return f.open(ctx, "the file of the upload "+id.String(), file(id))
}

func (f *Files) open(ctx context.Context, what string, o object.Name) (io.ReadCloser, error) {
	object, err := objects.Stream(ctx, f.storage, o)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", what, err)
	}
	return object, nil
}

// Lost tells of the error of a file that is gone or damaged, and stays so.
func Lost(err error) bool {
	return errors.Is(err, objects.ErrMissing) || errors.Is(err, objects.ErrDamaged)
}

// Remove deletes the file of a job, and what there is of one that has not come in.
func (f *Files) Remove(ctx context.Context, id uuid.UUID) error {
	return f.storage.Discard(ctx, file(id), id.String())
}

// Rows reads the rows of a job's file with a format. temp is the folder for temporary files. Of the first known rows of a
// zip, the images are not read.
func (f *Files) Rows(ctx context.Context, j Job, format tabular.Format, temp string, known int64) (tabular.Reader, error) {
	if format.Kind == tabular.Zip {
		return f.zip(ctx, j, format, known)
	}
	from, err := f.Open(ctx, j.ID)
	if err != nil {
		return nil, err
	}
	rows, err := tabular.Open(from, format, temp)
	if err != nil {
		return nil, errors.Join(err, from.Close())
	}
	return closing{rows, from}, nil
}

type closing struct {
	tabular.Reader
	from io.Closer
}

func (c closing) Close() error { return errors.Join(c.Reader.Close(), c.from.Close()) }

// As returns the format of a job's file with another encoding or delimiter, where they are given.
func (f *Files) As(ctx context.Context, j Job, encoding string, delimiter byte) (tabular.Format, error) {
	format := j.Format
	if encoding == "" && delimiter == 0 || format.Kind == tabular.XLSX {
		return format, nil
	}
	if encoding != "" && encoding != format.Encoding {
		format.Encoding, format.Delimiter = encoding, 0
	}
	if delimiter != 0 {
		format.Delimiter = delimiter
	}
	switch format.Kind {
	case tabular.Zip: // the metadata is read so
		return format, nil
	case tabular.Lines:
		format.Delimiter = 0
		return format, nil
	}
	from, err := f.Open(ctx, j.ID)
	if err != nil {
		return format, err
	}
	defer from.Close()
	head := make([]byte, 64<<10)
	n, err := io.ReadFull(from, head)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return format, fmt.Errorf("read the file of the upload %s: %w", j.ID, err)
	}
	return format.Complete(head[:n])
}
