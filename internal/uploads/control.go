package uploads

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/millrace-io/millrace/internal/dbpool"
	"github.com/millrace-io/millrace/internal/tabular"
	"github.com/millrace-io/millrace/schemas/uploads"
)

// change changes a job that the viewer may see, while its row is locked, and returns the job as it is
// then. do returns the assignments; none: nothing changes.
func (s *Store) change(
	ctx context.Context, what string, who Viewer, id uuid.UUID, do func(Job) (set string, args []any, err error),
) (j Job, err error) {
	err = pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		j, err = jobOf(tx.QueryRow(ctx, "SELECT "+columns+tables+`WHERE u.id = $1 AND ($2 OR o.subject = $3)
			AND u.received_at IS NOT NULL AND u.deleted_at IS NULL FOR UPDATE OF u`, id, who.All, who.Subject))
		if err := dbpool.OrNone(err, ErrNotFound); err != nil {
			return err
		}
		set, args, err := do(j)
		if err != nil || set == "" {
			return err
		}
		if _, err = tx.Exec(ctx, "UPDATE millrace.upload SET "+set+" WHERE no = $1", append([]any{j.No}, args...)...); err != nil {
			return err
		}
		j, err = jobOf(tx.QueryRow(ctx, "SELECT "+columns+tables+"WHERE u.no = $1", j.No))
		return err
	})
	if err != nil {
		return j, fmt.Errorf("%s the upload %s: %w", what, id, err)
	}
	s.awake()
	return j, nil
}

// Pause has nothing more done for a job until it is resumed.
func (s *Store) Pause(ctx context.Context, who Viewer, id uuid.UUID) (Job, error) {
	return s.change(ctx, "pause", who, id, func(j Job) (string, []any, error) {
		switch {
		case j.State == uploads.Paused:
			return "", nil, nil
		case !uploads.Open(j.State):
			return "", nil, &StateError{j.State, "the upload must be QUEUED, RUNNING or PAUSED: it is " + j.State}
		case j.CancelledAt != nil:
			return "", nil, &StateError{j.State, "the upload must not be cancelled"}
		}
		return "queue_state = 'PAUSED'", nil, nil
	})
}

// Resume has a job go on. Its format is changed where format is not nil, which a job that has persisted
// rows already does not allow. So is its mapping, which names the columns that its items are shown by, at
// any time: workers get the one that there was when their item came into the queue.
func (s *Store) Resume(
	ctx context.Context, who Viewer, id uuid.UUID, format *tabular.Format, mapping map[string]string,
) (Job, error) {
	return s.change(ctx, "resume", who, id, func(j Job) (string, []any, error) {
		set, args, err := resumed(j, format)
		if err != nil || mapping == nil {
			return set, args, err
		}
		text, err := json.Marshal(mapping)
		args = append(args, string(text))
		if set != "" {
			set += ", "
		}
		return fmt.Sprintf("%smapping = $%d", set, len(args)+1), args, err
	})
}

// resumed returns what Resume sets of a job; "": nothing.
func resumed(j Job, format *tabular.Format) (set string, args []any, err error) {
	switch {
	case j.State == uploads.Failed && j.Queued() && j.Total() > j.Processed():
		return "queue_state = 'QUEUED', last_error = NULL, finished_at = NULL", nil, nil // its queue was gone
	case !uploads.Open(j.State):
		return "", nil, &StateError{j.State, "the upload must be QUEUED, RUNNING or PAUSED: it is " + j.State}
	case format != nil && *format != j.Format && (j.State != uploads.Paused || j.ReadRows > 0):
		return "", nil, &StateError{j.State, "encoding and delimiter can be changed while the upload is PAUSED and " +
			"none of its rows is persisted"}
	case j.State != uploads.Paused:
		return "", nil, nil
	case format == nil:
		return "queue_state = 'QUEUED', last_error = NULL", nil, nil
	}
	return `queue_state = 'QUEUED', last_error = NULL, header = NULL, encoding = $2, delimiter = $3, lone_cr = $4`,
		[]any{format.Encoding, delimiterText(*format), format.LoneCR}, nil
}

// Cancel ends a job: its pending items become SKIPPED, and no more rows are persisted.
func (s *Store) Cancel(ctx context.Context, who Viewer, id uuid.UUID) (Job, error) {
	return s.change(ctx, "cancel", who, id, func(j Job) (string, []any, error) {
		switch {
		case j.CancelledAt != nil:
			return "", nil, nil
		case !uploads.Open(j.State):
			return "", nil, &StateError{j.State, "the upload must be QUEUED, RUNNING or PAUSED: it is " + j.State}
		}
		return "cancelled_at = now(), queue_state = 'QUEUED', last_error = NULL", nil, nil
	})
}

// Delete has a job with all that it has be gone: nobody sees it any more, and its rows and its file are
// deleted in the background.
func (s *Store) Delete(ctx context.Context, who Viewer, id uuid.UUID) error {
	_, err := s.change(ctx, "delete", who, id, func(Job) (string, []any, error) { return "deleted_at = now()", nil, nil })
	return err
}
