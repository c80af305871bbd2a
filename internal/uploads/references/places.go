package references

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/jlaffaye/ftp"

	"github.com/millrace-io/millrace/internal/objects"
	"github.com/millrace-io/millrace/schemas/object"
)

// MaxListed is how many files a place may have.
const MaxListed = 10_000

// Entry is a file of a place. The fingerprint changes when the file does, as far as a listing tells.
type Entry struct {
	Path, Fingerprint string
	Empty             bool
	Whole             bool // it is never half written
}

// Place is where files come to be: a folder, a prefix of a bucket of S3, or a folder on a server of FTP.
type Place struct {
	Name string // without a password

	opener *Opener
	list   func(ctx context.Context) ([]Entry, error)
	open   func(ctx context.Context, path string) (*File, error)
}

// NewPlace returns a place by its URL: file:///folder, s3://bucket/prefix, or ftp://user:password@host/folder. Hosts
// have to be in networks that the guard lets pass; what else requests may refer to does not matter.
func NewPlace(cfg Config, location string) (*Place, error) {
	u, err := url.Parse(location)
	if err != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, errors.New("invalid place: want file:///folder, s3://bucket/prefix or ftp://user:password@host/folder")
	}
	named := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}
	if u.User != nil {
		named.User = url.User(u.User.Username())
	}
	p := &Place{Name: named.String()}
	switch u.Scheme {
	case "file":
		if p.opener, err = New(Config{Folder: u.Path}); err != nil {
			return nil, err
		}
		p.list = func(context.Context) ([]Entry, error) { return folder(u.Path) }
		p.open = p.opener.below
	case "s3":
		if cfg.S3 == nil {
			return nil, fmt.Errorf("invalid place %s: there is no server of S3: set MILLRACE_S3_ENDPOINT", p.Name)
		}
		p.list = func(ctx context.Context) ([]Entry, error) {
			return prefix(ctx, cfg.S3, u.Host, strings.TrimPrefix(u.Path, "/"))
		}
		p.open = func(ctx context.Context, key string) (*File, error) {
			return opened(ctx, cfg.S3, object.Name{Bucket: u.Host, Key: key})
		}
	case "ftp":
		if u.Hostname() == "" || strings.ContainsAny(u.Path, "\r\n\x00") {
			return nil, fmt.Errorf("invalid place %s: want a host, and no control characters", p.Name)
		}
		at := u.Host
		if u.Port() == "" {
			at = net.JoinHostPort(u.Hostname(), ftpPort)
		}
		p.list = func(ctx context.Context) ([]Entry, error) { return ftpFolder(ctx, cfg, at, u) }
		p.open = func(ctx context.Context, name string) (*File, error) {
			return openFTP(ctx, cfg.Guard, at, u.User, path.Join(strings.TrimPrefix(u.Path, "/"), name))
		}
	default:
		return nil, fmt.Errorf("invalid place %s: want file://, s3:// or ftp://", p.Name)
	}
	return p, nil
}

// Close releases the place.
func (p *Place) Close() error {
	if p.opener == nil {
		return nil
	}
	return p.opener.Close()
}

// List returns the files, but for those that are on their way by their names. It takes objects.MaxTime at most.
func (p *Place) List(ctx context.Context) (all []Entry, err error) {
	ctx, cancel := context.WithTimeout(ctx, objects.MaxTime)
	defer cancel()
	listed, err := p.list(ctx)
	var broken *Error
	if errors.As(err, &broken) && broken.Code == "missing" || errors.Is(err, objects.ErrMissing) || errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list %s: it is not there, or cannot be read", p.Name)
	}
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", p.Name, err)
	}
	for _, e := range listed {
		if !onItsWay(path.Base(e.Path)) {
			all = append(all, e)
		}
	}
	return all, nil
}

// Open begins to read a file by its path in the listing.
func (p *Place) Open(ctx context.Context, path string) (*File, error) { return p.open(ctx, path) }

// onItsWay tells of names that programs give files that they have not written whole.
func onItsWay(name string) bool {
	if strings.HasPrefix(name, ".") || strings.HasSuffix(name, "~") {
		return true
	}
	switch strings.ToLower(path.Ext(name)) {
	case ".part", ".partial", ".tmp", ".temp", ".crdownload", ".filepart":
		return true
	}
	return false
}

var errTooMany = fmt.Errorf("it has more than %d files: take some away", MaxListed)

func folder(at string) (all []Entry, err error) {
	if at, err = filepath.EvalSymlinks(at); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(at)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	seen := 0
	for dirs := []string{"."}; len(dirs) > 0; {
		dir := dirs[len(dirs)-1]
		dirs = dirs[:len(dirs)-1]
		below, files, err := entries(root, dir, &seen)
		if err != nil {
			return nil, err
		}
		dirs, all = append(dirs, below...), append(all, files...)
		if len(all) > MaxListed || seen > maxSeen {
			return nil, errTooMany
		}
	}
	return all, nil
}

// maxSeen is how many entries of any kind are looked at: links, folders and others are no files.
const maxSeen = 10 * MaxListed

// entries returns folders and files of a folder, and counts what it has seen. It ends where that is too much.
func entries(root *os.Root, dir string, seen *int) (dirs []string, files []Entry, err error) {
	at, err := root.OpenFile(dir, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil && dir != "." {
		return nil, nil, nil // it has gone, or cannot be read
	}
	if err != nil {
		return nil, nil, err
	}
	defer at.Close()
	for *seen <= maxSeen {
		some, err := at.ReadDir(1000)
		for _, entry := range some {
			name := path.Join(dir, entry.Name())
			if entry.IsDir() {
				dirs = append(dirs, name)
			}
			info, err := entry.Info()
			if err != nil || !info.Mode().IsRegular() { // it has gone, or is no file
				continue
			}
			files = append(files, Entry{
				Path: name, Fingerprint: fmt.Sprintf("%d %d", info.Size(), info.ModTime().UnixNano()), Empty: info.Size() == 0,
			})
		}
		if *seen += len(some); err != nil {
			break
		}
	}
	return dirs, files, nil
}

func prefix(ctx context.Context, s3 *objects.S3, bucket, prefix string) (all []Entry, err error) {
	listed, err := s3.List(ctx, bucket, prefix, MaxListed+1)
	if len(listed) > MaxListed {
		return nil, errTooMany
	}
	for _, o := range listed {
		if !strings.HasSuffix(o.Key, "/") {
			all = append(all, Entry{Path: o.Key, Fingerprint: o.Version, Empty: o.Size == 0, Whole: true})
		}
	}
	return all, err
}

func ftpFolder(ctx context.Context, cfg Config, at string, u *url.URL) (all []Entry, err error) {
	c, err := dialFTP(ctx, cfg.Guard, at, u.User)
	if err != nil {
		return nil, err
	}
	defer c.cut()
	base := strings.Trim(strings.TrimPrefix(u.Path, "/"), "/")
	c.listing = maxListing
	var below func(dir string, depth int) error
	below = func(dir string, depth int) error {
		entries, err := c.List(path.Join(base, dir))
		if err != nil {
			return told(err)
		}
		for _, e := range entries {
			name := path.Join(dir, e.Name)
			switch {
			case e.Name == "." || e.Name == ".." || strings.ContainsAny(e.Name, "/\r\n\x00"):
			case e.Type == ftp.EntryTypeFolder && depth < maxDepth:
				if err := below(name, depth+1); err != nil {
					return err
				}
			case e.Type != ftp.EntryTypeFile:
			case len(all) == MaxListed:
				return errTooMany
			default:
				all = append(all, Entry{Path: name, Fingerprint: fmt.Sprintf("%d %d", e.Size, e.Time.UnixNano()), Empty: e.Size == 0})
			}
		}
		return nil
	}
	err = below("", 0)
	return all, err
}

// Bounds of what a server lists: folders in folders, and bytes of all listings. The client holds all entries of a folder.
const (
	maxDepth   = 16
	maxListing = 8 << 20
)

var errListing = fmt.Errorf("its listing has more than %d bytes: take some files away", maxListing)
