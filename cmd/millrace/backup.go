package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"

	"github.com/millrace-io/millrace/internal/backup"
	"github.com/millrace-io/millrace/internal/backup/set"
)

type backupCmd struct {
	To   string `help:"Where the backup goes: a folder that is empty or missing, or s3://bucket/prefix." required:"" placeholder:"PLACE"`
	Base string `help:"An earlier backup of the same installation: what it has is not taken again. It has to be kept as long as this one." placeholder:"PLACE"`
	Data string `help:"Folder for all data, where \"millrace up\" keeps the logins of its engines." env:"MILLRACE_DATA" default:"./data"`

	Engines    engineAddresses `embed:"" group:"Engines"`
	ClickHouse clickhouseLogin `embed:"" group:"Engines"`
	Shared     sharedSettings  `embed:"" group:"Servers to use instead of embedded ones"`
	S3         backupS3        `embed:"" group:"Backups in S3"`
}

// backupS3 says how to reach S3 where a backup is there.
type backupS3 struct {
	Endpoint  string `help:"URL of S3 or MinIO, such as http://minio:9000, for backups at s3://." env:"MILLRACE_BACKUP_S3_ENDPOINT,MILLRACE_S3_ENDPOINT" name:"backup-s3-endpoint"`
	AccessKey string `help:"Access key for backups in S3." env:"MILLRACE_BACKUP_S3_ACCESS_KEY,MILLRACE_S3_ACCESS_KEY" name:"backup-s3-access-key"`
	SecretKey string `help:"Secret key for backups in S3." env:"MILLRACE_BACKUP_S3_SECRET_KEY,MILLRACE_S3_SECRET_KEY" name:"backup-s3-secret-key"`
	Region    string `help:"Region of the bucket of backups; without it, the server is asked." env:"MILLRACE_BACKUP_S3_REGION,MILLRACE_S3_REGION" name:"backup-s3-region"`
}

// target is a place as --to and --from name it.
func (s backupS3) target(place string) (set.Target, error) {
	if place == "" {
		return nil, errors.New("name the place of the backup: a folder, or s3://bucket/prefix")
	}
	if strings.HasPrefix(place, "s3://") {
		return set.S3(set.S3Config(s), place)
	}
	return set.Folder(place), nil
}

// backupSource is the backup that a command reads.
type backupSource struct {
	From string   `help:"Where the backup is: a folder, or s3://bucket/prefix." required:"" placeholder:"PLACE"`
	Base []string `help:"Where a base of the backup is, if not where it was. Repeat it for several." placeholder:"PLACE"`
}

// open opens the backup for a command, which what names in errors. A cluster of ClickHouse cannot be restored from a
// backup.
func (b backupSource) open(p *program, what string, s3 backupS3, use sharedSettings) (set.Target, *set.Reader, error) {
	if use.Cluster != "" {
		return nil, nil, errClusterBackup
	}
	target, err := s3.target(b.From)
	if err != nil {
		return nil, nil, err
	}
	r, err := backup.Open(p.ctx, target, s3.places(target, b.Base))
	if err != nil {
		return nil, nil, fmt.Errorf("%s from %s: %w", what, target, err)
	}
	return target, r, nil
}

// Run takes a backup of a running installation.
func (c *backupCmd) Run(p *program) error {
	if c.Shared.Cluster != "" {
		return errClusterBackup
	}
	private()
	target, err := c.S3.target(c.To)
	if err != nil {
		return err
	}
	if err := c.outside(target); err != nil {
		return err
	}
	in, disconnect, err := c.installation(p)
	if err != nil {
		return err
	}
	defer disconnect()
	base, err := c.openBase(p)
	if err != nil {
		return err
	}
	begun := time.Now()
	m, err := backup.Save(p.ctx, in, target, version, base)
	if err != nil {
		return p.interrupted(fmt.Errorf("back up to %s: %w", target, err), "the backup has no manifest and cannot be restored: "+
			"remove it")
	}
	_, err = fmt.Fprintf(p.out, "backup %s: %d files, %d bytes, %d events, in %s\n", target, len(m.Files), m.Bytes(),
		backup.Events(m), time.Since(begun).Round(time.Millisecond))
	return err
}

// outside returns an error for a place in the data folder: engines have their files there, and the backup would be lost
// together with the data.
func (c *backupCmd) outside(target set.Target) error {
	folder, ok := target.(set.Folder)
	if !ok || c.Shared.NATS != "" && c.Shared.ClickHouse != "" && c.Shared.Postgres != "" {
		return nil
	}
	within, err := isWithin(string(folder), c.Data)
	if err == nil && within {
		err = fmt.Errorf("%s is in the data folder %s: name a place outside it, best on another disk", folder, c.Data)
	}
	return err
}

// isWithin tells whether a path, which may not be there, is a folder or in it, wherever links lead.
func isWithin(path, folder string) (bool, error) {
	of, err := os.Stat(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if path, err = filepath.Abs(path); err != nil {
		return false, err
	}
	for {
		if real, err := filepath.EvalSymlinks(path); err == nil {
			path = real
		}
		at, err := os.Stat(path)
		if err == nil && os.SameFile(at, of) {
			return true, nil
		}
		up := filepath.Dir(path)
		if up == path {
			return false, nil
		}
		path = up
	}
}

// openBase opens the base; nil: there is none.
func (c *backupCmd) openBase(p *program) (*set.Reader, error) {
	if c.Base == "" {
		return nil, nil
	}
	at, err := c.S3.target(c.Base)
	if err != nil {
		return nil, err
	}
	base, err := set.Open(p.ctx, at, c.S3.places(at, nil))
	if err != nil {
		return nil, fmt.Errorf("open the base: %w", err)
	}
	return base, nil
}

// places are where the bases of a set are looked for: those that are named, and where each was.
func (s backupS3) places(of set.Target, named []string) func(set.Base) ([]set.Target, error) {
	return func(b set.Base) (all []set.Target, err error) {
		for _, place := range append(slices.Clone(named), set.Within(of, b.Place)) {
			target, err := s.target(place)
			if err != nil {
				return nil, err
			}
			all = append(all, target)
		}
		return all, nil
	}
}

// errClusterBackup is the error of an installation whose tables are spread over servers.
var errClusterBackup = errors.New("tables of a ClickHouse cluster are not backed up yet: copy its servers with their own " +
	"BACKUP, and see docs/recovery.md")

// installation connects to the servers that are named, and else to the engines of a "millrace up".
func (c *backupCmd) installation(p *program) (in backup.Installation, disconnect func(), err error) {
	data := c.Data
	if demo := filepath.Join(data, demoFolder); !readable(filepath.Join(data, passwordFile)) &&
		readable(filepath.Join(demo, passwordFile)) {
		data = demo
	}
	in = backup.Installation{Postgres: c.Shared.Postgres, Log: p.log}
	if in.ClickHouse, err = c.clickhouse(data); err != nil {
		return in, nil, err
	}
	if in.Postgres == "" {
		if in.Postgres, err = embeddedDSN(data, c.Engines.PostgresListen); err != nil {
			return in, nil, err
		}
	}
	address := orDefault(c.Shared.NATS, "nats://"+dialable(c.Engines.NATSListen))
	in.NATS, err = c.Shared.NATSLogin.connect(p.ctx, address, data, p.log)
	if err != nil {
		return in, nil, err
	}
	return in, in.NATS.Close, nil
}

func (c *backupCmd) clickhouse(data string) (*clickhouse.Options, error) {
	if c.Shared.ClickHouse != "" {
		return c.Shared.clickhouseOptions()
	}
	s := clickhouseServer{clickhouseLogin: c.ClickHouse}
	if file := filepath.Join(data, passwordFile); s.Password == "" && !readable(file) {
		return nil, fmt.Errorf("%s cannot be read: name the data folder of \"millrace up\" by --data, or servers by "+
			"MILLRACE_NATS_URL, MILLRACE_CLICKHOUSE_DSN and MILLRACE_POSTGRES_DSN", file)
	}
	if err := s.complete(data); err != nil {
		return nil, err
	}
	return s.options(), nil
}

// embeddedDSN returns the DSN of the embedded Postgres of a data folder, "" if the folder has none.
func embeddedDSN(data, listen string) (string, error) {
	password, err := os.ReadFile(filepath.Join(data, "postgres", "password"))
	if errors.Is(err, os.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read the password of Postgres: %w", err)
	}
	u := url.URL{
		Scheme: "postgres", User: url.UserPassword("millrace", strings.TrimSpace(string(password))),
		Host: dialable(listen), Path: "/millrace", RawQuery: "sslmode=disable",
	}
	return u.String(), nil
}
