package set

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"path"
	"strings"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

// S3Config says where a set is in S3 or MinIO.
type S3Config struct {
	Endpoint             string // URL of the server
	AccessKey, SecretKey string
	Region               string // default: the server is asked
}

// bucket is a set below a prefix of a bucket.
type bucket struct {
	client       *minio.Client
	name, prefix string
}

// partBytes is how much of a file is held in memory to be sent. A file has 10,000 parts at most.
const partBytes = 32 << 20

// S3 is a set at s3://bucket/prefix.
func S3(cfg S3Config, address string) (Target, error) {
	at, err := url.Parse(address)
	if err != nil || at.Scheme != "s3" || at.Host == "" {
		return nil, fmt.Errorf("invalid address %q: want s3://bucket/prefix", address)
	}
	server, err := url.Parse(cfg.Endpoint)
	if err != nil || (server.Scheme != "http" && server.Scheme != "https") || server.Host == "" {
		return nil, fmt.Errorf("invalid endpoint of S3 %q: set MILLRACE_S3_ENDPOINT to a URL such as https://s3.example.com",
			cfg.Endpoint)
	}
	client, err := minio.New(server.Host, &minio.Options{
		Creds:  credentials.NewStaticV4(cfg.AccessKey, cfg.SecretKey, ""),
		Secure: server.Scheme == "https", Region: cfg.Region,
	})
	if err != nil {
		return nil, fmt.Errorf("open S3 at %s: %w", cfg.Endpoint, err)
	}
	return &bucket{client, at.Host, strings.Trim(at.Path, "/")}, nil
}

// String names the target.
func (b *bucket) String() string { return "s3://" + path.Join(b.name, b.prefix) }

func (b *bucket) key(name string) string { return path.Join(b.prefix, name) }

// Empty implements Target.
func (b *bucket) Empty(ctx context.Context) (bool, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	prefix := b.prefix
	if prefix != "" {
		prefix += "/"
	}
	for o := range b.client.ListObjects(ctx, b.name, minio.ListObjectsOptions{Prefix: prefix, Recursive: true, MaxKeys: 1}) {
		return false, o.Err
	}
	return true, nil
}

// Claim implements Target. Servers that do not know conditions overwrite the file.
func (b *bucket) Claim(ctx context.Context, name string) error {
	var options minio.PutObjectOptions
	options.SetMatchETagExcept("*")
	_, err := b.client.PutObject(ctx, b.name, b.key(name), strings.NewReader(""), 0, options)
	switch minio.ToErrorResponse(err).Code {
	case minio.PreconditionFailed, "ConditionalRequestConflict":
		return fs.ErrExist
	case minio.NotImplemented:
		_, err = b.client.PutObject(ctx, b.name, b.key(name), strings.NewReader(""), 0, minio.PutObjectOptions{})
	}
	return err
}

// Remove implements Target.
func (b *bucket) Remove(ctx context.Context, name string) error {
	return b.client.RemoveObject(ctx, b.name, b.key(name), minio.RemoveObjectOptions{})
}

// Create implements Target. The object is there once all of it has been sent.
func (b *bucket) Create(ctx context.Context, name string) (io.WriteCloser, error) {
	from, to := io.Pipe()
	u := &upload{PipeWriter: to, sent: make(chan error, 1)}
	go func() {
		_, err := b.client.PutObject(ctx, b.name, b.key(name), from, -1, minio.PutObjectOptions{
			PartSize: partBytes, ContentType: "application/octet-stream",
		})
		from.CloseWithError(err)
		u.sent <- err
	}()
	return u, nil
}

// upload is an object that is being sent.
type upload struct {
	*io.PipeWriter
	sent chan error
}

// Close waits until the server has the object.
func (u *upload) Close() error { return errors.Join(u.PipeWriter.Close(), <-u.sent) }

// Open implements Target.
func (b *bucket) Open(ctx context.Context, name string) (io.ReadCloser, error) {
	o, err := b.client.GetObject(ctx, b.name, b.key(name), minio.GetObjectOptions{})
	if err != nil {
		return nil, err
	}
	if _, err := o.Stat(); err != nil {
		o.Close()
		if minio.ToErrorResponse(err).Code == minio.NoSuchKey {
			return nil, fs.ErrNotExist
		}
		return nil, err
	}
	return o, nil
}
