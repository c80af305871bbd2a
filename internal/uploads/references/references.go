// Package references opens files that requests name and do not send: objects of S3 and of the NATS Object Store, files
// in a folder, and files on servers of FTP.
//
//  1. Off unless configured. A request reaches the buckets, the folder and the hosts that are named, and nothing else.
//     No path and no link leads out of them. Hosts are in public networks, unless others are allowed.
//  2. Whole or not at all. A file that changes while it is read is an ErrChanged at its end.
package references

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/millrace-io/millrace/internal/netguard"
	"github.com/millrace-io/millrace/internal/objects"
	"github.com/millrace-io/millrace/schemas/object"
)

// ErrChanged is the error of a file that changed while it was read.
var ErrChanged = objects.ErrChanged

// ErrAway is the error of a server that cannot be asked at present.
var ErrAway = errors.New("the server cannot be reached, or does not answer as it should")

// MaxLength is how many bytes a reference has at most.
const MaxLength = 2048

// Error is the error of a reference that breaks a rule.
type Error struct{ Code, Rule string }

func (e *Error) Error() string { return e.Rule }

// Config says what may be referred to.
type Config struct {
	S3          *objects.S3 // nil: there is none
	S3Buckets   []string
	NATS        *objects.NATS // nil: there is none
	NATSBuckets []string
	Folder      string         // absolute; empty: none
	FTPHosts    []string       // names, or name:port where it is not 21
	Guard       netguard.Guard // of hosts
}

// Opener opens files. It is safe for concurrent use.
type Opener struct {
	cfg    Config
	files  *objects.Files
	folder string // the name of the folder below its parent
}

// New checks the configuration, and opens the folder.
func New(cfg Config) (*Opener, error) {
	o := &Opener{cfg: cfg}
	if len(cfg.S3Buckets) > 0 && cfg.S3 == nil {
		return nil, errors.New("references: buckets of S3 are named, and there is no server of S3: set MILLRACE_S3_ENDPOINT")
	}
	if cfg.Folder == "" {
		return o, nil
	}
	at, err := filepath.EvalSymlinks(cfg.Folder)
	if err != nil {
		return nil, fmt.Errorf("references: open the folder: %w", err)
	}
	if o.folder = filepath.Base(at); o.folder == "/" {
		return nil, errors.New("references: the folder must not be the root of the file system")
	}
	o.files, err = objects.OpenFiles(filepath.Dir(at))
	return o, err
}

// Close releases the folder.
func (o *Opener) Close() error {
	if o.files == nil {
		return nil
	}
	return o.files.Close()
}

// Any tells whether anything may be referred to.
func (o *Opener) Any() bool {
	return len(o.cfg.S3Buckets)+len(o.cfg.NATSBuckets)+len(o.cfg.FTPHosts) > 0 || o.files != nil
}

// File is a file that is being read. At its end, Read returns an ErrChanged where it has changed meanwhile.
type File struct {
	io.ReadCloser
	Name string
	Size int64 // bytes, as the storage says; 0: it says nothing
}

// Open begins to read a file. It returns an *Error where the reference breaks a rule.
func (o *Opener) Open(ctx context.Context, reference string) (*File, error) {
	u, err := url.Parse(reference)
	if err != nil || len(reference) > MaxLength {
		return nil, &Error{"url", fmt.Sprintf("must be a URL of at most %d bytes", MaxLength)}
	}
	if u.RawQuery != "" || u.Fragment != "" {
		return nil, &Error{"url", "must have no ? and no #: write them as %3F and %23"}
	}
	switch u.Scheme {
	case "s3":
		return o.object(ctx, o.cfg.S3, o.cfg.S3Buckets, "MILLRACE_UPLOADS_S3_BUCKETS", u)
	case "nats":
		return o.object(ctx, o.cfg.NATS, o.cfg.NATSBuckets, "MILLRACE_UPLOADS_NATS_BUCKETS", u)
	case "file":
		return o.file(ctx, u)
	case "ftp":
		return o.ftp(ctx, u)
	}
	return nil, &Error{"scheme", "must begin with s3://, nats://, file:// or ftp://"}
}

func off(setting string) *Error {
	return &Error{"off", "must be of a kind that the server allows: an operator sets " + setting}
}

func (o *Opener) object(
	ctx context.Context, storage objects.Storage, allowed []string, setting string, u *url.URL,
) (*File, error) {
	name := object.Name{Bucket: u.Host, Key: strings.TrimPrefix(u.Path, "/")}
	switch {
	case len(allowed) == 0:
		return nil, off(setting)
	case !slices.Contains(allowed, name.Bucket):
		return nil, &Error{"bucket", "must name a bucket that the server allows: an operator adds it to " + setting}
	}
	if err := name.Check(); err != nil {
		return nil, &Error{"path", err.Error()}
	}
	return opened(ctx, storage, name)
}

func (o *Opener) file(ctx context.Context, u *url.URL) (*File, error) {
	if o.files == nil {
		return nil, off("MILLRACE_UPLOADS_FOLDER")
	}
	key, below := strings.CutPrefix(u.Path, strings.TrimSuffix(filepath.ToSlash(o.cfg.Folder), "/")+"/")
	if u.Host != "" || !below {
		return nil, &Error{"folder", "must name a file in the folder that the server allows, as file:///folder/name"}
	}
	return o.below(ctx, key)
}

// below opens a file by its path in the folder.
func (o *Opener) below(ctx context.Context, key string) (*File, error) {
	name := object.Name{Bucket: o.folder, Key: key}
	if err := (object.Name{Bucket: "folder", Key: key}).Check(); err != nil {
		return nil, &Error{"path", err.Error()}
	}
	f, err := opened(ctx, o.files, name)
	if err != nil && errors.As(err, new(*Error)) || err == nil {
		return f, err
	}
	return nil, &Error{"missing", "must name a regular file that is there, by a path that leaves the folder by no link"}
}

func opened(ctx context.Context, storage objects.Storage, object object.Name) (*File, error) {
	from, err := objects.Stream(ctx, storage, object)
	if err != nil {
		return nil, failed(err)
	}
	return &File{&settled{Object: from, ctx: ctx}, path.Base(object.Key), from.Size()}, nil
}

// failed is an error of a storage that callers understand.
func failed(err error) error {
	switch {
	case errors.Is(err, objects.ErrMissing):
		return &Error{"missing", "must name a file that is there"}
	case errors.Is(err, objects.ErrDamaged):
		return &Error{"damaged", "must name a file whose content is what its checksum says"}
	}
	return fmt.Errorf("%w: %w", ErrAway, err)
}

// settled looks at the end whether an object has changed.
type settled struct {
	objects.Object
	ctx context.Context
	end error
}

// Read implements io.Reader.
func (s *settled) Read(p []byte) (int, error) {
	if s.end != nil {
		return 0, s.end
	}
	n, err := s.Object.Read(p)
	if err == nil {
		return n, nil
	}
	changed, lookErr := s.Changed(s.ctx)
	switch {
	case changed:
		err = ErrChanged
	case errors.Is(err, io.EOF) && lookErr != nil:
		err = fmt.Errorf("%w: look whether it has changed: %w", ErrAway, lookErr)
	case !errors.Is(err, io.EOF):
		err = failed(err)
	}
	s.end = err
	return n, err
}
