package uploads

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// Parts is a job whose file comes in parts.
type Parts struct {
	ID       uuid.UUID
	Size     int64             // of the whole file, as it was announced
	Metadata map[string]string // what the client says of the file
	Received bool              // all of it has come in, and the job is known
	Expires  time.Time         // when it is swept away unless another part comes
}

// BeginParts is Begin of a file that comes in parts.
func (s *Store) BeginParts(ctx context.Context, subject, address string, size int64, metadata map[string]string) (uuid.UUID, error) {
	text, err := json.Marshal(metadata)
	if err != nil {
		return uuid.Nil, fmt.Errorf("begin an upload: %w", err)
	}
	parts := string(text)
	return s.begin(ctx, subject, address, size, &parts)
}

// Parts returns a job whose file comes in parts, or did, and that the viewer may see; else ErrNotFound.
func (s *Store) Parts(ctx context.Context, who Viewer, id uuid.UUID) (Parts, error) {
	p := Parts{ID: id}
	var metadata []byte
	err := s.pool.QueryRow(ctx, `SELECT u.size, u.parts, u.received_at IS NOT NULL, u.last_heartbeat + make_interval(secs => $4)`+
		tables+"WHERE u.id = $1 AND ($2 OR o.subject = $3) AND u.parts IS NOT NULL AND u.deleted_at IS NULL",
		id, who.All, who.Subject, s.limits.Parts.Seconds()).Scan(&p.Size, &metadata, &p.Received, &p.Expires)
	if errors.Is(err, pgx.ErrNoRows) {
		return p, ErrNotFound
	}
	if err == nil {
		err = json.Unmarshal(metadata, &p.Metadata)
	}
	if err != nil {
		return p, fmt.Errorf("read the upload %s: %w", id, err)
	}
	return p, nil
}
