package uploads

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/google/uuid"
	tus "github.com/tus/tusd/v2/pkg/handler"
	"golang.org/x/sync/singleflight"

	"github.com/millrace-io/millrace/internal/auth"
	"github.com/millrace-io/millrace/internal/httpapi"
	"github.com/millrace-io/millrace/internal/objects"
	"github.com/millrace-io/millrace/internal/tabular"
	"github.com/millrace-io/millrace/internal/uploads"
	"github.com/millrace-io/millrace/internal/uploads/uploadsapi"
)

// tusStore keeps resumable uploads. There are no locks: a part is stored on the condition that it follows
// the last one, so a connection that hangs holds up nobody, and any process goes on.
type tusStore struct {
	h         *Handler
	finishing singleflight.Group
}

// tusUpload is a file on its way, or one that has come in.
type tusUpload struct {
	*tusStore
	uploads.Parts
	at *objects.Partial // nil: all of it has come in
}

// NewUpload implements tus.DataStore.
func (s *tusStore) NewUpload(ctx context.Context, info tus.FileInfo) (tus.Upload, error) {
	address := httpapi.ClientFrom(ctx).String()
	id, err := s.h.store.BeginParts(ctx, auth.CallerFrom(ctx).Subject, address, info.Size, info.MetaData)
	if err != nil {
		return nil, s.h.tusError(ctx, err)
	}
	return s.open(ctx, id)
}

// GetUpload implements tus.DataStore. A file of which all has come in becomes an upload, where that could not
// be told when its last byte came.
func (s *tusStore) GetUpload(ctx context.Context, id string) (tus.Upload, error) {
	u, err := s.open(ctx, uploadsapi.UploadID{JobID: id}.UUID())
	if err == nil && u.at != nil && u.at.Size == u.Size {
		err = u.FinishUpload(ctx)
	}
	if err != nil {
		return nil, err
	}
	return u, nil
}

func (s *tusStore) open(ctx context.Context, id uuid.UUID) (*tusUpload, error) {
	parts, err := s.h.store.Parts(ctx, uploadsapi.ViewerFrom(ctx), id)
	if err != nil {
		return nil, s.h.tusError(ctx, err)
	}
	u := &tusUpload{tusStore: s, Parts: parts}
	if !parts.Received {
		answerOf(ctx).expires = parts.Expires
		if u.at, err = s.h.files.Partial(ctx, id); err != nil {
			return nil, s.h.tusError(ctx, err)
		}
	}
	return u, nil
}

// AsTerminatableUpload implements tus.TerminaterDataStore.
func (s *tusStore) AsTerminatableUpload(u tus.Upload) tus.TerminatableUpload { return u.(*tusUpload) }

// Terminate implements tus.TerminatableUpload.
func (u *tusUpload) Terminate(ctx context.Context) error {
	if u.Received {
		return u.h.tusError(ctx, httpapi.NewProblem(http.StatusConflict, "the file has come in: delete the upload instead",
			httpapi.FieldError{Field: "jobId", Code: "state", Rule: "must be that of a file that is still coming in"}))
	}
	return u.h.tusError(ctx, u.h.store.Abandon(ctx, u.ID))
}

// GetInfo implements tus.Upload.
func (u *tusUpload) GetInfo(context.Context) (tus.FileInfo, error) {
	info := tus.FileInfo{ID: u.ID.String(), Size: u.Size, Offset: u.Size, MetaData: u.Metadata}
	if u.at != nil {
		info.Offset = u.at.Size
	}
	return info, nil
}

// GetReader implements tus.Upload. The file is read where uploads are.
func (u *tusUpload) GetReader(context.Context) (io.ReadCloser, error) {
	return nil, errors.ErrUnsupported
}

// WriteChunk implements tus.Upload. It stores what came also when the client has gone.
func (u *tusUpload) WriteChunk(ctx context.Context, _ int64, from io.Reader) (int64, error) {
	before, ctx := u.at.Size, context.WithoutCancel(ctx)
	err := u.h.files.Append(ctx, u.ID, u.Size, u.at, from)
	if err == nil {
		answerOf(ctx).expires = time.Now().Add(u.h.store.Limits().Parts)
		err = u.h.store.Receiving(ctx, u.ID)
	}
	if errors.Is(err, uploads.ErrStopped) {
		err = u.stopped(ctx)
	}
	return u.at.Size - before, u.h.tusError(ctx, err)
}

// stopped says why a file does not come in any more; nil: all of it has, as another request has found. Of one that
// was deleted, nobody else deletes what came since.
func (u *tusUpload) stopped(ctx context.Context) error {
	now, err := u.h.store.Parts(ctx, uploads.Viewer{All: true}, u.ID)
	switch {
	case errors.Is(err, uploads.ErrNotFound):
		return errors.Join(err, u.h.files.Remove(ctx, u.ID))
	case err == nil && !now.Received:
		return uploads.ErrStopped
	}
	return err
}

// FinishUpload implements tus.Upload.
func (u *tusUpload) FinishUpload(ctx context.Context) error {
	_, err, _ := u.finishing.Do(u.ID.String(), func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tusPatience)
		defer cancel()
		return nil, u.finish(ctx)
	})
	if err == nil {
		u.Received, u.at = true, nil
		answerOf(ctx).expires = time.Time{}
	}
	return u.h.tusError(ctx, err)
}

// finish makes an upload of a file of which all has come in. What can never be one is deleted.
func (u *tusUpload) finish(ctx context.Context) error {
	err := u.complete(ctx)
	if errors.Is(err, uploads.ErrStopped) {
		return u.stopped(ctx)
	}
	if err != nil && u.h.problem(err).Status == http.StatusBadRequest {
		u.h.abandon(u.ID)
	}
	return err
}

func (u *tusUpload) complete(ctx context.Context) error {
	f, file, sum := formOf(u.Metadata)
	stored, err := u.h.files.Finish(ctx, u.ID, u.at)
	if err != nil {
		return err
	}
	if sum != nil && !bytes.Equal(sum, stored.SHA256[:]) {
		f.wrong("sha256", "sha256", fmt.Sprintf("must be that of the file, which is %x: send the file again", stored.SHA256))
		return f.problem()
	}
	from, err := u.h.files.Open(ctx, u.ID)
	if err != nil {
		return err
	}
	var sniff tabular.Sniffer
	_, err = io.Copy(&sniff, from)
	if err = errors.Join(err, from.Close()); err != nil {
		return fmt.Errorf("read the file of the upload %s, which has come in: %w", u.ID, err)
	}
	file.Size, file.SHA256 = stored.Size, stored.SHA256[:]
	received, err := f.received(file, &sniff)
	if err != nil {
		return err
	}
	return u.h.store.Complete(ctx, u.ID, received)
}

// tusSign notes that a file is coming in.
func (h *Handler) tusSign(ctx context.Context, id string) error {
	if id == "" { // the first part comes with the request that begins the upload
		return nil
	}
	err := h.sign(ctx, uploadsapi.UploadID{JobID: id}.UUID())
	if errors.Is(err, uploads.ErrStopped) {
		err = uploads.ErrNotFound
	}
	return h.tusError(ctx, err)
}
