package uploads

import (
	"context"
	"crypto/hmac"
	"fmt"
	"io"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/millrace-io/millrace/internal/dbpool"
	"github.com/millrace-io/millrace/internal/tabular"
)

// ImageColumnOf is the column that names the image of a row, as it was when the first rows were persisted; empty: the
// first of the usual names.
func ImageColumnOf(j Job) string {
	if j.ReadRows > 0 {
		return j.ImageColumn
	}
	return j.Mapping["image"]
}

// ImageLink is where the image of a row is. Its user and admins need no key.
func ImageLink(job uuid.UUID, row int64) string {
	return fmt.Sprintf("%s/uploads/%s/images/%d", defaultBase, job, row)
}

// zip reads the rows of a zip of images where they are in the storage. Of its first rows the images are not read.
func (f *Files) zip(ctx context.Context, j Job, format tabular.Format, known int64) (tabular.Reader, error) {
	at, err := f.storage.At(ctx, file(j.ID))
	if err != nil {
		return nil, fmt.Errorf("open the file of the upload %s: %w", j.ID, err)
	}
	return tabular.OpenZip(at, at.Size(), format, tabular.ZipConfig{
		Column: ImageColumnOf(j), Known: known, Link: func(row int64) string { return ImageLink(j.ID, row) },
	})
}

// OpenImage reads an image from the file of a job. Its last read fails where it is damaged.
func (f *Files) OpenImage(ctx context.Context, job uuid.UUID, i tabular.Image) (io.ReadCloser, error) {
	at, err := f.storage.At(ctx, file(job))
	if err != nil {
		return nil, fmt.Errorf("open the file of the upload %s: %w", job, err)
	}
	return i.Open(at), nil
}

// RowImage is the image of a row.
type RowImage struct {
	No int32
	tabular.Image
}

func copyImages(ctx context.Context, tx pgx.Tx, no int32, images []RowImage) error {
	if len(images) == 0 {
		return nil
	}
	_, err := tx.CopyFrom(ctx, pgx.Identifier{"millrace", "upload_image"},
		[]string{"job_no", "row_no", "name", "type", "size", "place", "packed", "deflated", "crc"},
		pgx.CopyFromSlice(len(images), func(n int) ([]any, error) {
			i := images[n]
			return []any{no, i.No, i.Name, i.Type, i.Size, i.At, i.Packed, i.Deflated, int64(i.CRC)}, nil
		}))
	return err
}

// Image returns the image of a row to those who may see its job, and to who has the link to it while the row is
// PROCESSING. For all others there is none.
func (s *Store) Image(ctx context.Context, who Viewer, id uuid.UUID, row int32, key string) (i tabular.Image, err error) {
	var link uuid.UUID
	var subject string
	var held bool
	var crc int64
	err = s.pool.QueryRow(ctx, `SELECT u.link_key, o.subject, i.status = 1, m.name, m.type, m.size, m.place, m.packed, m.deflated,
		m.crc`+tables+`JOIN millrace.upload_image AS m ON m.job_no = u.no JOIN millrace.upload_item AS i ON i.job_no = u.no
		AND i.row_no = m.row_no WHERE u.id = $1 AND m.row_no = $2 AND u.deleted_at IS NULL`, id, row).
		Scan(&link, &subject, &held, &i.Name, &i.Type, &i.Size, &i.At, &i.Packed, &i.Deflated, &crc)
	if err := dbpool.Found(err, ErrNotFound, "read the image of row %d of the upload %s", row, id); err != nil {
		return i, err
	}
	if !who.All && who.Subject != subject && !(held && hmac.Equal([]byte(key), []byte(linkKey(link, row)))) {
		return tabular.Image{}, ErrNotFound
	}
	i.CRC = uint32(crc)
	return i, nil
}
