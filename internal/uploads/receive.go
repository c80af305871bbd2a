package uploads

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/millrace-io/millrace/internal/dbpool"
	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/internal/tabular"
	"github.com/millrace-io/millrace/schemas/uploads"
)

// Received says what a file is that has come in.
type Received struct {
	Name, FileName, Processor string
	Mapping                   map[string]string
	Format                    tabular.Format
	Size                      int64
	SHA256                    []byte
	Hold                      bool // the job waits as PAUSED

	From *Origin // the watched place that it was taken from; nil: none
}

// Begin makes a job whose file is coming in, and that nobody sees before Complete. It returns a
// LimitError where the user has too much already; size is that of the file, as far as it is known, and
// counts as the user's while the file comes in.
func (s *Store) Begin(ctx context.Context, subject, address string, size int64) (id uuid.UUID, err error) {
	return s.begin(ctx, subject, address, size, nil)
}

func (s *Store) begin(ctx context.Context, subject, address string, size int64, parts *string) (id uuid.UUID, err error) {
	if id, err = uuid.NewV7(); err != nil {
		return id, fmt.Errorf("begin an upload: %w", err)
	}
	err = pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		// The row stays locked: two that begin at once are counted one after the other.
		var no int32
		var bytes, rows int64
		if err := tx.QueryRow(ctx, `INSERT INTO millrace.upload_owner (subject) VALUES ($1)
			ON CONFLICT (subject) DO UPDATE SET rows = upload_owner.rows RETURNING no, bytes, rows`, subject).
			Scan(&no, &bytes, &rows); err != nil {
			return err
		}
		// A file that waits for its next part, maybe for ever, is none of the open ones until it goes on.
		var open, waiting int
		var coming int64
		if err := tx.QueryRow(ctx, `SELECT count(*) FILTER (WHERE NOT idle), count(*) FILTER (WHERE idle),
				coalesce(sum(size) FILTER (WHERE received_at IS NULL), 0)
			FROM (SELECT *, received_at IS NULL AND parts IS NOT NULL
					AND last_heartbeat < now() - make_interval(secs => $2) AS idle
				FROM millrace.upload WHERE owner_no = $1 AND deleted_at IS NULL
				AND (queue_state IN ('QUEUED', 'RUNNING', 'PAUSED') OR received_at IS NULL)) AS u`, no, silent.Seconds()).
			Scan(&open, &waiting, &coming); err != nil {
			return err
		}
		if most := waitingShare * s.limits.Open; parts != nil && waiting >= most {
			return &LimitError{"open_uploads", fmt.Sprintf("%d files of yours wait for their next parts, and a user may have "+
				"%d: go on with them, or delete them", waiting, most)}
		}
		if err := s.limits.check(open, bytes+coming+size, rows); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, "INSERT INTO millrace.upload (id, owner_no, address, size, parts) VALUES ($1, $2, $3, $4, $5)",
			id, no, address, size, parts)
		return err
	})
	if err != nil {
		return id, fmt.Errorf("begin an upload: %w", err)
	}
	return id, nil
}

// waitingShare is how many times as many files of a user may wait for their next parts as uploads may be open.
const waitingShare = 10

func (l Limits) check(open int, bytes, rows int64) error {
	switch {
	case open >= l.Open:
		return &LimitError{"open_uploads", fmt.Sprintf("%d uploads of yours are neither done nor failed, and a user may "+
			"have %d: wait, or cancel one", open, l.Open)}
	case bytes > l.Bytes:
		return &LimitError{"bytes", fmt.Sprintf("the files of your uploads would have %d bytes, and those of a user may "+
			"have %d: delete some", bytes, l.Bytes)}
	case rows >= l.Rows:
		return &LimitError{"rows", fmt.Sprintf("your uploads have %d rows, and those of a user may have %d: delete some",
			rows, l.Rows)}
	}
	return nil
}

// Receiving notes that the file of a job is still coming in. It returns ErrStopped where the job was
// swept away.
func (s *Store) Receiving(ctx context.Context, id uuid.UUID) error {
	tag, err := s.pool.Exec(ctx, `UPDATE millrace.upload SET last_heartbeat = now()
		WHERE id = $1 AND received_at IS NULL AND deleted_at IS NULL`, id)
	if err == nil && tag.RowsAffected() == 0 {
		err = ErrStopped
	}
	if err != nil {
		return fmt.Errorf("receive the upload %s: %w", id, err)
	}
	return nil
}

// Complete makes the job known, and has it worked on unless it is held. It returns ErrTaken for a file of a watched
// place whose content was taken before.
func (s *Store) Complete(ctx context.Context, id uuid.UUID, r Received) error {
	mapping, err := json.Marshal(r.Mapping)
	if err != nil {
		return fmt.Errorf("complete the upload %s: %w", id, err)
	}
	state := uploads.Queued
	if r.Hold {
		state = uploads.Paused
	}
	err = pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		var owner int32
		var parts bool
		err := tx.QueryRow(ctx, `UPDATE millrace.upload SET name = $2, file_name = $3, processor = $4, mapping = $5,
			kind = $6, encoding = $7, delimiter = $8, lone_cr = $9, size = $10, sha256 = $11, queue_state = $12,
			received_at = now(), last_heartbeat = now(), changed_at = now()
			WHERE id = $1 AND received_at IS NULL AND deleted_at IS NULL RETURNING owner_no, parts IS NOT NULL`,
			id, r.Name, r.FileName, r.Processor, string(mapping), r.Format.Kind, r.Format.Encoding,
			delimiterText(r.Format), r.Format.LoneCR, r.Size, r.SHA256, state).Scan(&owner, &parts)
		if err := dbpool.OrNone(err, ErrStopped); err != nil {
			return err
		}
		if r.From != nil {
			if err := r.From.take(ctx, tx, id, r.SHA256); err != nil {
				return err
			}
		}
		if err := s.followQueue(ctx, tx, r.Processor); err != nil {
			return err
		}
		var bytes int64
		if err := tx.QueryRow(ctx, "UPDATE millrace.upload_owner SET bytes = bytes + $2 WHERE no = $1 RETURNING bytes",
			owner, r.Size).Scan(&bytes); err != nil {
			return err
		}
		var open int
		if parts { // others may have begun while it waited for its parts. The row of the user is locked
			if err := tx.QueryRow(ctx, `SELECT count(*) FROM millrace.upload WHERE owner_no = $1 AND id <> $2 AND deleted_at IS NULL
				AND received_at IS NOT NULL AND queue_state IN ('QUEUED', 'RUNNING', 'PAUSED')`, owner, id).Scan(&open); err != nil {
				return err
			}
		}
		return s.limits.check(open, bytes, 0)
	})
	if err != nil {
		return fmt.Errorf("complete the upload %s: %w", id, err)
	}
	s.awake()
	return nil
}

// CheckProcessor returns ErrProcessor where no job may have a processor.
func (s *Store) CheckProcessor(ctx context.Context, name string) error {
	switch {
	case name == uploads.Copy:
		return nil
	case !utf8.ValidString(name) || strings.ContainsRune(name, 0): // Postgres takes no such text
		return ErrProcessor
	}
	var there bool
	err := s.pool.QueryRow(ctx, "SELECT EXISTS (SELECT FROM millrace.stage WHERE name = $1 AND stage >= $2)", name,
		queue.FirstOwn).Scan(&there)
	if err == nil && (!there || s.hooked == nil || s.hooked(name)) {
		err = ErrProcessor
	}
	if err != nil {
		return fmt.Errorf("look for the processor of an upload: %w", err)
	}
	return nil
}

// followQueue has rows follow the items of a queue.
func (s *Store) followQueue(ctx context.Context, tx pgx.Tx, processor string) error {
	if err := s.CheckProcessor(ctx, processor); err != nil || processor == uploads.Copy {
		return err
	}
	tag, err := tx.Exec(ctx, "UPDATE millrace.stage SET followed = true WHERE name = $1 AND stage >= $2", processor, queue.FirstOwn)
	if err == nil && tag.RowsAffected() == 0 {
		err = ErrProcessor
	}
	return err
}

func delimiterText(f tabular.Format) string {
	if f.Delimiter == 0 {
		return ""
	}
	return string(f.Delimiter)
}

// Abandon has a job that was begun swept away at once.
func (s *Store) Abandon(ctx context.Context, id uuid.UUID) error {
	_, err := s.pool.Exec(ctx, "UPDATE millrace.upload SET deleted_at = now() WHERE id = $1 AND received_at IS NULL", id)
	if err != nil {
		return fmt.Errorf("abandon the upload %s: %w", id, err)
	}
	s.awake()
	return nil
}

// silent is how long a file that comes in one request may give no sign before its job is swept away.
const silent = 5 * time.Minute

// AbandonSilent has jobs swept away whose files have stopped coming in.
func (s *Store) AbandonSilent(ctx context.Context) error {
	_, err := s.pool.Exec(ctx, `UPDATE millrace.upload SET deleted_at = now()
		WHERE received_at IS NULL AND deleted_at IS NULL
		AND last_heartbeat < now() - make_interval(secs => CASE WHEN parts IS NULL THEN $1::float8 ELSE $2 END)`,
		silent.Seconds(), s.limits.Parts.Seconds())
	if err != nil {
		return fmt.Errorf("sweep uploads that have stopped: %w", err)
	}
	return nil
}
