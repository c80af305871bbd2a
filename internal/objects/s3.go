package objects

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/millrace-io/millrace/schemas/object"
)

// S3Config says where a server of S3 or MinIO is.
type S3Config struct {
	// Endpoint is its URL, such as http://minio:9000 or https://s3.amazonaws.com.
	Endpoint string
	// AccessKey and SecretKey sign requests; without them, requests are not signed.
	AccessKey, SecretKey string
	// Region of the buckets; default: the server is asked for each.
	Region string
}

// S3 holds objects in buckets of S3 or MinIO. One request reads an object, and so one
// version of it, with the checksum that was stored beside it, if there is one.
type S3 struct{ core minio.Core }

// NewS3 is the storage on a server.
func NewS3(cfg S3Config) (*S3, error) {
	at, err := url.Parse(cfg.Endpoint)
	if err != nil || (at.Scheme != "http" && at.Scheme != "https") || at.Host == "" || (at.Path != "" && at.Path != "/") {
		return nil, fmt.Errorf("invalid endpoint of S3 %q: want a URL such as https://s3.example.com", cfg.Endpoint)
	}
	transport, err := minio.DefaultTransport(at.Scheme == "https")
	if err != nil {
		return nil, fmt.Errorf("open S3 at %s: %w", cfg.Endpoint, err)
	}
	core, err := minio.NewCore(at.Host, &minio.Options{
		Creds:  credentials.NewStaticV4(cfg.AccessKey, cfg.SecretKey, ""),
		Secure: at.Scheme == "https", Region: cfg.Region, Transport: documents{transport},
		MaxRetries: 1, // who reads tries again, and knows when that has an end
	})
	if err != nil {
		return nil, fmt.Errorf("open S3 at %s: %w", cfg.Endpoint, err)
	}
	return &S3{*core}, nil
}

// documents bounds what a server answers to requests that have a query: these are documents, and no objects, and the client
// holds all of them, some of their empty tags in a kilobyte. A page of a listing has a thousand keys of a kilobyte at most.
type documents struct{ http.RoundTripper }

const (
	maxDocument = 8 << 20
	maxTags     = 100_000
)

// document is a document that is being read.
type document struct {
	io.ReadCloser
	bytes, tags int
}

// Read implements io.Reader.
func (d *document) Read(p []byte) (int, error) {
	n, err := d.ReadCloser.Read(p)
	d.bytes, d.tags = d.bytes+n, d.tags+bytes.Count(p[:n], []byte("<"))
	if d.bytes > maxDocument || d.tags > maxTags {
		return 0, fmt.Errorf("an answer of the server of S3 has more than %d bytes or %d tags", maxDocument, maxTags)
	}
	return n, err
}

// RoundTrip implements http.RoundTripper.
func (d documents) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := d.RoundTripper.RoundTrip(r)
	if err == nil && r.URL.RawQuery != "" {
		answer.Body = &document{ReadCloser: answer.Body}
	}
	return answer, err
}

// Open implements Storage.
func (s *S3) Open(ctx context.Context, o object.Name) (Object, error) {
	body, about, header, err := s.core.GetObject(ctx, o.Bucket, o.Key, minio.GetObjectOptions{Checksum: true})
	if err != nil {
		return nil, missingInS3(err)
	}
	if about.Size < 0 || header.Get("Content-Range") != "" {
		return nil, errors.Join(errNoLength, body.Close())
	}
	return s3Object{body, about}, nil
}

// errNoLength is the error of an answer that may end with the connection, or is a part that nobody has asked for: either would
// look whole.
var errNoLength = errors.New("the server of S3, or a proxy before it, does not tell how long the object is (Content-Length)")

// Listed is an object of a bucket. The version changes when the object is overwritten.
type Listed struct {
	Key, Version string
	Size         int64
}

// List returns up to limit objects whose keys have a prefix. It takes MaxTime at most.
func (s *S3) List(ctx context.Context, bucket, prefix string, limit int) (all []Listed, err error) {
	ctx, cancel := context.WithTimeout(ctx, MaxTime) // which ends the listing
	defer cancel()
	for o := range s.core.Client.ListObjects(ctx, bucket, minio.ListObjectsOptions{Prefix: prefix, Recursive: true}) {
		if o.Err != nil {
			return all, missingInS3(o.Err)
		}
		all = append(all, Listed{o.Key, fmt.Sprintf("%s %d %d", o.ETag, o.Size, o.LastModified.UnixNano()), o.Size})
		if len(all) == limit {
			break
		}
	}
	return all, ctx.Err() // the client may end without a word when the time is over
}

func missingInS3(err error) error {
	switch minio.ToErrorResponse(err).Code {
	case minio.NoSuchKey, minio.NoSuchBucket, minio.InvalidBucketName:
		return fmt.Errorf("%w: %w", ErrMissing, err)
	}
	return err
}

type s3Object struct {
	io.ReadCloser
	about minio.ObjectInfo
}

// Metadata implements Object.
func (o s3Object) Metadata() map[string]string { return o.about.UserMetadata }

// Size implements Object.
func (o s3Object) Size() int64 { return o.about.Size }

// Read implements Object. The client has no type for the error of a wrong checksum.
func (o s3Object) Read(p []byte) (int, error) {
	n, err := o.ReadCloser.Read(p)
	if err != nil && strings.HasPrefix(err.Error(), "checksum mismatch") {
		err = fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return n, err
}

// Changed implements Object: one request has one version.
func (s3Object) Changed(context.Context) (bool, error) { return false, nil }
