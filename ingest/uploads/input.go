package uploads

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/millrace-io/millrace/internal/endpoint"
	"github.com/millrace-io/millrace/internal/uploads"
	"github.com/millrace-io/millrace/internal/uploads/uploadsapi"
)

// GetUploadInputRequest names the input of an item, with the key of the link to it.
type GetUploadInputRequest struct {
	uploadsapi.UploadID
	RowNo int32  `path:"rowNo" minimum:"1" doc:"Its place among the rows of the file"`
	Key   string `query:"key" maxLength:"64" doc:"As the link has it. The upload's user and admins need none"`
}

// UploadInput is a row as its processor gets it.
type UploadInput struct {
	JobID string          `json:"job_id"`
	RowNo int32           `json:"row_no"`
	Input json.RawMessage `json:"input" doc:"An object"`
}

func (h *Handler) input(ctx context.Context, in *GetUploadInputRequest) (UploadInput, error) {
	row, err := h.store.Input(ctx, uploadsapi.ViewerFrom(ctx), in.UUID(), in.RowNo, in.Key)
	if errors.Is(err, uploads.ErrNotFound) {
		err = endpoint.NotFound("rowNo", "must be that of a row of an upload of yours, or of the link, while it is PROCESSING")
	}
	return UploadInput{in.JobID, in.RowNo, row}, err
}
