package uploads

import (
	"context"
	"errors"
	"io"
	"mime"
	"path"

	"github.com/danielgtaylor/huma/v2"

	"github.com/millrace-io/millrace/internal/auth"
	"github.com/millrace-io/millrace/internal/endpoint"
	"github.com/millrace-io/millrace/internal/httpapi"
	"github.com/millrace-io/millrace/internal/uploads"
	"github.com/millrace-io/millrace/internal/uploads/uploadsapi"
)

// maxImages is how many images a process sends at a time: each takes a few pieces of its file in memory.
const maxImages = 32

// GetUploadImageRequest names the image of a row, with the key of the link to it.
type GetUploadImageRequest struct {
	uploadsapi.UploadID
	RowNo int32  `path:"rowNo" minimum:"1" doc:"Its place among the rows of the upload"`
	Key   string `query:"key" maxLength:"64" doc:"As the link has it. The upload's user and admins need none"`
}

// uploadImage is an image as it is sent: a file to keep, and nothing that a browser runs.
type uploadImage struct {
	ContentType string `header:"Content-Type"`
	Disposition string `header:"Content-Disposition" doc:"attachment, with the name of the image"`
	Policy      string `header:"Content-Security-Policy"`
	Sniffing    string `header:"X-Content-Type-Options"`
	Cache       string `header:"Cache-Control"`
	Length      int64  `header:"Content-Length"`
	Body        func(huma.Context)
}

func (h *Handler) registerImages(api endpoint.API) {
	binary := &huma.MediaType{Schema: &huma.Schema{Type: huma.TypeString, Format: "binary"}}
	api.Errors = []int{404}
	endpoint.GetRaw(api, endpoint.Operation{
		ID: "get-upload-image", Path: "/{jobId}/images/{rowNo}", Summary: "The image of a row of a zip", Scope: auth.Uploads,
		Text: "Where image_link of a row and of the payload of an item lead. The user of the upload and admins may fetch it; " +
			"so may who has the key of the link, while the item is PROCESSING. It is sent as an attachment.",
	}, map[string]*huma.Response{"200": {
		Description: "The image", Content: map[string]*huma.MediaType{"image/*": binary},
	}}, h.image)
}

func (h *Handler) image(ctx context.Context, in *GetUploadImageRequest) (*uploadImage, error) {
	image, err := h.store.Image(ctx, uploadsapi.ViewerFrom(ctx), in.UUID(), in.RowNo, in.Key)
	if errors.Is(err, uploads.ErrNotFound) {
		err = endpoint.NotFound("rowNo", "must be that of a row with an image, of an upload of yours or of the link while it is PROCESSING")
	}
	if err != nil {
		return nil, h.problem(err)
	}
	return &uploadImage{
		ContentType: image.Type, Length: image.Size, Policy: "default-src 'none'; sandbox", Sniffing: "nosniff",
		Cache:       "private, no-store",
		Disposition: mime.FormatMediaType("attachment", map[string]string{"filename": path.Base(image.Name)}),
		Body: func(hctx huma.Context) {
			ctx := hctx.Context()
			select {
			case h.images <- struct{}{}:
				defer func() { <-h.images }()
			case <-ctx.Done():
				return
			}
			from, err := h.files.OpenImage(ctx, in.UUID(), image)
			if err == nil {
				defer from.Close()
				_, err = io.Copy(hctx.BodyWriter(), from)
			}
			if err != nil && ctx.Err() == nil { // the connection is cut, so that nobody takes a part for the whole
				httpapi.Abort(h.problem(err))
			}
		},
	}, nil
}
