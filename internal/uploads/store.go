package uploads

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/millrace-io/millrace/internal/dbpool"
	"github.com/millrace-io/millrace/internal/tabular"
	"github.com/millrace-io/millrace/schemas/uploads"
)

var (
	// ErrNotFound is the error of a job that does not exist, or is another's.
	ErrNotFound = errors.New("there is no such upload")
	// ErrProcessor is the error of a processor that no job may have.
	ErrProcessor = errors.New("a job may have the processor copy, or a queue that exists and is no system's own")
	// ErrStopped is the error of work on a job that is not to be worked on: it was paused, cancelled or
	// deleted, or another process works on it.
	ErrStopped = errors.New("the upload is not to be worked on")
)

// StateError is the error of a change that a job's state does not allow.
type StateError struct{ State, Rule string }

func (e *StateError) Error() string { return e.Rule }

// LimitError is the error of what a user has too much of.
type LimitError struct{ Code, Rule string }

func (e *LimitError) Error() string { return e.Rule }

// Limits are those of each user. The zero value of a field stands for its default.
type Limits struct {
	Bytes int64 // of the files of all uploads that are kept; default 20 GiB
	File  int64 // of one file; default 2 GiB
	Open  int   // uploads that are neither done nor failed; default 20
	Rows  int64 // of all uploads that are kept; default 20,000,000
	// Parts is how long a file that comes in parts may wait for its next one; default 24 hours.
	Parts time.Duration
}

func (l Limits) withDefaults() (Limits, error) {
	l.Bytes = cmp.Or(l.Bytes, 20<<30)
	l.File = cmp.Or(l.File, 2<<30)
	l.Open = cmp.Or(l.Open, 20)
	l.Rows = cmp.Or(l.Rows, 20_000_000)
	l.Parts = cmp.Or(l.Parts, 24*time.Hour)
	if l.Parts < 0 {
		return l, errors.New("uploads: the time that a file may wait for its next part must not be negative")
	}
	if l.Bytes < 1 || l.File < 1 || l.Open < 1 || l.Rows < 1 {
		return l, errors.New("uploads: limits of users must be at least 1")
	}
	return l, nil
}

// Store keeps jobs and rows. It is safe for concurrent use; the pool is the caller's.
type Store struct {
	pool     *pgxpool.Pool
	limits   Limits
	attempts Attempts
	wake     chan struct{}          // for runners
	feed     chan struct{}          // for the feeder
	hooked   func(name string) bool // tells whether a queue is a system's own; nil: no job has a queue
}

// New returns a store. It asks nothing of the database.
func New(pool *pgxpool.Pool, limits Limits, attempts Attempts) (*Store, error) {
	if pool == nil {
		return nil, errors.New("uploads: a connection pool is needed")
	}
	limits, err := limits.withDefaults()
	if err != nil {
		return nil, err
	}
	attempts, err = attempts.withDefaults()
	return &Store{pool, limits, attempts, make(chan struct{}, 1), make(chan struct{}, 1), nil}, err
}

// Limits are those of each user.
func (s *Store) Limits() Limits { return s.limits }

// Pool is the pool that the store works on.
func (s *Store) Pool() *pgxpool.Pool { return s.pool }

// Wakes gets a token when there is work for a process.
func (s *Store) Wakes() <-chan struct{} { return s.wake }

func (s *Store) awake() {
	for _, wake := range []chan struct{}{s.wake, s.feed} {
		select {
		case wake <- struct{}{}:
		default:
		}
	}
}

// Viewer is who asks for uploads.
type Viewer struct {
	Subject string
	All     bool // sees those of all users
}

// Job is an upload.
type Job struct {
	No        int32
	OwnerNo   int32
	ID        uuid.UUID
	Owner     string
	Address   string
	Name      string
	FileName  string
	Processor string
	Mapping   map[string]string // names of columns by field
	Format    tabular.Format
	Header    []string // nil: not read yet, or rows have no columns
	// ImageColumn names the images of a zip; empty: the first of the usual names does, or no row is persisted.
	ImageColumn string
	Size        int64
	SHA256      []byte
	State       string
	LastError   *string

	CreatedAt     time.Time
	StartedAt     *time.Time
	FinishedAt    *time.Time
	CancelledAt   *time.Time
	DeletedAt     *time.Time
	LastHeartbeat time.Time
	ChangedAt     time.Time

	Attempts int32
	ReadRows int32
	ReadAll  bool
	Rejected int32
	Counts   [6]int32 // by status
	RowsSec  float32
	ItemsSec float32
}

// Queued tells whether the job's rows are worked through a queue.
func (j *Job) Queued() bool { return j.Processor != uploads.Copy }

// Total is how many items the job has.
func (j *Job) Total() int32 {
	var n int32
	for _, of := range j.Counts {
		n += of
	}
	return n
}

// Processed is how many of them have a final status.
func (j *Job) Processed() int32 {
	return j.Total() - j.Counts[uploads.Pending] - j.Counts[uploads.Processing]
}

// FailedItems is how many of those are ERROR or NOT_FOUND.
func (j *Job) FailedItems() int32 { return j.Counts[uploads.Error] + j.Counts[uploads.NotFound] }

const columns = `u.no, u.owner_no, u.id, o.subject, u.address, u.name, u.file_name, u.processor, u.mapping, u.kind,
	u.encoding, u.delimiter, u.lone_cr, u.header, u.image_column, u.size, u.sha256, u.queue_state, u.last_error, u.created_at,
	u.started_at, u.finished_at, u.cancelled_at, u.deleted_at, u.last_heartbeat, u.changed_at, u.attempts, u.read_rows,
	u.read_all, u.rejected, u.pending, u.processing, u.done, u.error, u.not_found, u.skipped, u.rows_sec, u.items_sec`

const tables = ` FROM millrace.upload AS u JOIN millrace.upload_owner AS o ON o.no = u.owner_no `

// jobOf reads the columns, and first those in more.
func jobOf(r pgx.Row, more ...any) (j Job, err error) {
	var mapping, header []byte
	var delimiter string
	err = r.Scan(append(more, &j.No, &j.OwnerNo, &j.ID, &j.Owner, &j.Address, &j.Name, &j.FileName, &j.Processor, &mapping,
		&j.Format.Kind, &j.Format.Encoding, &delimiter, &j.Format.LoneCR, &header, &j.ImageColumn, &j.Size, &j.SHA256, &j.State,
		&j.LastError, &j.CreatedAt, &j.StartedAt, &j.FinishedAt, &j.CancelledAt, &j.DeletedAt, &j.LastHeartbeat,
		&j.ChangedAt, &j.Attempts, &j.ReadRows, &j.ReadAll, &j.Rejected, &j.Counts[0], &j.Counts[1], &j.Counts[2],
		&j.Counts[3], &j.Counts[4], &j.Counts[5], &j.RowsSec, &j.ItemsSec)...)
	if err != nil {
		return j, err
	}
	if delimiter != "" {
		j.Format.Delimiter = delimiter[0]
	}
	if header != nil {
		err = json.Unmarshal(header, &j.Header)
	}
	return j, errors.Join(err, json.Unmarshal(mapping, &j.Mapping))
}

// Get returns a job that the viewer may see, or ErrNotFound.
func (s *Store) Get(ctx context.Context, who Viewer, id uuid.UUID) (Job, error) {
	return s.get(ctx, s.pool, who, id)
}

func (s *Store) get(ctx context.Context, db interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}, who Viewer, id uuid.UUID,
) (Job, error) {
	j, err := jobOf(db.QueryRow(ctx, "SELECT "+columns+tables+`WHERE u.id = $1 AND ($2 OR o.subject = $3)
		AND u.received_at IS NOT NULL AND u.deleted_at IS NULL`, id, who.All, who.Subject))
	return j, dbpool.Found(err, ErrNotFound, "read the upload %s", id)
}

// Filter selects jobs. The zero value of a field selects all.
type Filter struct {
	State     string
	Processor string
	Owner     *string
}

// Place is that of a job in a list.
type Place struct {
	At time.Time
	No int32
}

// List returns up to limit jobs that the viewer may see, the newest first, behind a place.
func (s *Store) List(ctx context.Context, who Viewer, f Filter, after *Place, limit int) (all []Job, err error) {
	if !who.All {
		f.Owner = &who.Subject
	}
	if after == nil {
		after = &Place{time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC), 0}
	}
	rows, _ := s.pool.Query(ctx, "SELECT "+columns+tables+`WHERE (u.created_at, u.no) < ($1, $2)
		AND ($3::text IS NULL OR u.owner_no = (SELECT no FROM millrace.upload_owner WHERE subject = $3))
		AND ($4 = '' OR u.queue_state = $4) AND ($5 = '' OR u.processor = $5)
		AND u.received_at IS NOT NULL AND u.deleted_at IS NULL
		ORDER BY u.created_at DESC, u.no DESC LIMIT $6`, after.At, after.No, f.Owner, f.State, f.Processor, limit)
	return dbpool.Collect(rows, func(r pgx.CollectableRow) (Job, error) { return jobOf(r) }, "list uploads")
}
