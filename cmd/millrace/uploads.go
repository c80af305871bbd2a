package main

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	ingestuploads "github.com/millrace-io/millrace/ingest/uploads"
	"github.com/millrace-io/millrace/internal/endpoint"
	"github.com/millrace-io/millrace/internal/netguard"
	"github.com/millrace-io/millrace/internal/objects"
	"github.com/millrace-io/millrace/internal/sampler"
	"github.com/millrace-io/millrace/internal/uploads"
	"github.com/millrace-io/millrace/internal/uploads/references"
	"github.com/millrace-io/millrace/query/live"
	queryuploads "github.com/millrace-io/millrace/query/uploads"

	schema "github.com/millrace-io/millrace/schemas/uploads"
)

// uploadSettings bound what users upload, and how rows are persisted.
type uploadSettings struct {
	File  int64 `help:"Bytes that one uploaded file may have." env:"MILLRACE_UPLOADS_MAX_FILE" name:"uploads-max-file" default:"2147483648"`
	Bytes int64 `help:"Bytes that the uploaded files of one user may have together." env:"MILLRACE_UPLOADS_USER_BYTES" name:"uploads-user-bytes" default:"21474836480"`
	Open  int   `help:"Uploads of one user that may be neither done nor failed." env:"MILLRACE_UPLOADS_USER_OPEN" name:"uploads-user-open" default:"20"`
	Rows  int64 `help:"Rows that the uploads of one user may have together." env:"MILLRACE_UPLOADS_USER_ROWS" name:"uploads-user-rows" default:"20000000"`

	References referenceSettings `embed:""`
	Watch      watchSettings     `embed:""`

	Pending          bool `help:"Answer /pending, the items of all uploads." env:"MILLRACE_PENDING_DASHBOARD" name:"pending-dashboard" default:"true" negatable:""`
	AttemptsError    int  `help:"How often an item of an upload may be processed that ends with an error, before reprocessing has to reset its attempts." env:"MILLRACE_MAX_ATTEMPTS_ERROR,MAX_ATTEMPTS_ERROR" name:"max-attempts-error" default:"5"`
	AttemptsNotFound int  `help:"The same for an item that is not found." env:"MILLRACE_MAX_ATTEMPTS_NOT_FOUND,MAX_ATTEMPTS_NOT_FOUND" name:"max-attempts-not-found" default:"2"`

	TargetSlice int     `help:"Milliseconds that a slice of an upload is to take: what of it is in the queue that is its processor at a time." env:"MILLRACE_WORKER_TARGET_SLICE_MS,WORKER_TARGET_SLICE_MS" name:"worker-target-slice-ms" default:"5000"`
	ClaimMin    int     `help:"Items of the smallest slice." env:"MILLRACE_CLAIM_MIN,CLAIM_MIN" name:"claim-min" default:"16"`
	ClaimMax    int     `help:"Items of the largest slice." env:"MILLRACE_CLAIM_MAX,CLAIM_MAX" name:"claim-max" default:"2000"`
	Safety      float64 `help:"Share of worker-target-slice-ms that a slice is planned to take." env:"MILLRACE_SAFETY_FACTOR,SAFETY_FACTOR" name:"safety-factor" default:"0.7"`

	Pacing pacingSettings `embed:""`

	LockFloor int `help:"Milliseconds of the shortest lease of an item of an upload, or lease_s of its queue where that is shorter." env:"MILLRACE_LOCK_FLOOR_MS,LOCK_FLOOR_MS" name:"lock-floor-ms" default:"10000"`
	LockCap   int `help:"Milliseconds of the longest one, or lease_s where that is longer." env:"MILLRACE_LOCK_CAP_MS,LOCK_CAP_MS" name:"lock-cap-ms" default:"300000"`

	MinRows  int `help:"Rows of the smallest batch that is persisted in one transaction." env:"MILLRACE_INGEST_MIN_ROWS,INGEST_MIN_ROWS" name:"ingest-min-rows" default:"64"`
	MaxRows  int `help:"Rows of the largest batch." env:"MILLRACE_INGEST_MAX_ROWS,INGEST_MAX_ROWS" name:"ingest-max-rows" default:"10000"`
	MaxBatch int `help:"Bytes of a batch, if it has more than one row." env:"MILLRACE_INGEST_MAX_BATCH_BYTES,INGEST_MAX_BATCH_BYTES" name:"ingest-max-batch-bytes" default:"4194304"`
	P50      int `help:"Batches grow while transactions take fewer milliseconds than this." env:"MILLRACE_DB_P50_MS,DB_P50_MS" name:"db-p50-ms" default:"100"`
	P95      int `help:"Batches shrink while transactions take more milliseconds than this on average." env:"MILLRACE_DB_P95_MS,DB_P95_MS" name:"db-p95-ms" default:"500"`
}

// referenceSettings say which files requests may name instead of sending them.
type referenceSettings struct {
	S3Buckets   []string       `help:"Buckets of the server at MILLRACE_S3_ENDPOINT whose objects may be uploaded as s3://bucket/key." env:"MILLRACE_UPLOADS_S3_BUCKETS" name:"uploads-s3-buckets"`
	NATSBuckets []string       `help:"Buckets of the NATS Object Store whose objects may be uploaded as nats://bucket/key." env:"MILLRACE_UPLOADS_NATS_BUCKETS" name:"uploads-nats-buckets"`
	Folder      string         `help:"Folder whose files may be uploaded as file:///folder/name." env:"MILLRACE_UPLOADS_FOLDER" name:"uploads-folder" type:"path"`
	FTPHosts    []string       `help:"Hosts whose files may be uploaded as ftp://user:password@host/path: names, or name:port." env:"MILLRACE_UPLOADS_FTP_HOSTS" name:"uploads-ftp-hosts"`
	Allow       []netip.Prefix `help:"Networks that hosts of FTP may be in although they are not public, such as 10.1.0.0/16." env:"MILLRACE_UPLOADS_ALLOW" name:"uploads-allow"`
}

// watchSettings say where files are taken from when they come to be.
type watchSettings struct {
	Places    []string      `help:"Places whose files become uploads: file:///folder, s3://bucket/prefix (of the server at MILLRACE_S3_ENDPOINT) or ftp://user:password@host/folder." env:"MILLRACE_UPLOADS_WATCH" name:"uploads-watch"`
	Processor string        `help:"What makes results of the rows of these files: copy, or the name of a queue." env:"MILLRACE_UPLOADS_WATCH_PROCESSOR" name:"uploads-watch-processor" default:"copy"`
	User      string        `help:"User that these uploads belong to: sub of the user's tokens." env:"MILLRACE_UPLOADS_WATCH_USER" name:"uploads-watch-user"`
	Every     time.Duration `help:"Time between two looks at these places." env:"MILLRACE_UPLOADS_WATCH_EVERY" name:"uploads-watch-every" default:"30s"`
	Settle    time.Duration `help:"Time for which a file of a folder does not change before it is taken." env:"MILLRACE_UPLOADS_WATCH_SETTLE" name:"uploads-watch-settle" default:"10s"`
}

// watcher takes files of watched places.
func (n *node) watcher(to references.Config, h *ingestuploads.Handler) (*ingestuploads.Watcher, error) {
	s := n.Uploads.Watch
	cfg := ingestuploads.WatchConfig{Processor: s.Processor, User: s.User, Every: s.Every, Settle: s.Settle}
	for _, location := range s.Places {
		place, err := references.NewPlace(to, location)
		if err != nil {
			return nil, fmt.Errorf("MILLRACE_UPLOADS_WATCH: %w", err)
		}
		cfg.Places = append(cfg.Places, place)
	}
	return ingestuploads.NewWatcher(cfg, h, n.log)
}

// references says which files requests may name.
func (n *node) references() (cfg references.Config, err error) {
	s := n.Uploads.References
	cfg = references.Config{
		S3Buckets: s.S3Buckets, NATS: n.objectsInNATS(), NATSBuckets: s.NATSBuckets, Folder: s.Folder, FTPHosts: s.FTPHosts,
		Guard: netguard.New(s.Allow),
	}
	if n.Batches.S3Endpoint != "" {
		cfg.S3, err = n.Batches.s3()
	}
	return cfg, err
}

func (s uploadSettings) bounds() schema.Bounds {
	return schema.Bounds{
		MinRows: s.MinRows, MaxRows: s.MaxRows, MaxBytes: s.MaxBatch, P50: time.Duration(s.P50) * time.Millisecond,
		P95: time.Duration(s.P95) * time.Millisecond,
	}
}

func (s uploadSettings) pace() schema.Pace {
	return schema.Pace{
		Target: time.Duration(s.TargetSlice) * time.Millisecond, Min: s.ClaimMin, Max: s.ClaimMax, Safety: s.Safety,
	}
}

func (s uploadSettings) locks() schema.Locks {
	return schema.Locks{Floor: time.Duration(s.LockFloor) * time.Millisecond, Cap: time.Duration(s.LockCap) * time.Millisecond}
}

// openUploads makes the store of uploads, and what keeps their files.
func (n *node) openUploads() (err error) {
	js, err := jetstream.New(n.nats)
	if err != nil {
		return fmt.Errorf("uploads: %w", err)
	}
	n.stores.files = uploads.NewFiles(objects.NewNATS(js, max(n.work.Replicas, 1)))
	n.stores.uploads, err = uploads.New(n.database.pool, uploads.Limits{
		File: n.Uploads.File, Bytes: n.Uploads.Bytes, Open: n.Uploads.Open, Rows: n.Uploads.Rows,
	}, uploads.Attempts{Error: n.Uploads.AttemptsError, NotFound: n.Uploads.AttemptsNotFound})
	if err != nil {
		return err
	}
	n.stores.feeder, err = uploads.NewFeeder(uploads.FeederConfig{Pace: n.Uploads.pace(), Locks: n.Uploads.locks()}, n.stores.uploads, n.stores.own, n.log)
	return err
}

// specifiedUploads is where the specification of uploads has what is below /api/v1.
func specifiedUploads(api endpoint.API) {
	api.Server.Also("/api/jobs", "/uploads")
	api.Server.Also("/api/pending", "/pending")
}

// specifiedIngestion is where it has what is about watched places.
func specifiedIngestion(api endpoint.API) { api.Server.Also("/api/ingestion", "/ingestion") }

// takeUploads takes files, and works on them.
func (n *node) takeUploads() (of share, err error) {
	temp, err := n.uploadsFolder()
	if err != nil {
		return of, err
	}
	commands, err := ingestuploads.New(n.Uploads.bounds(), n.stores.uploads, n.stores.files, n.stores.feeder, n.auth, n.log)
	if err != nil {
		return of, err
	}
	named, err := n.references()
	if err != nil {
		return of, err
	}
	opener, err := references.New(named)
	if err != nil {
		return of, err
	}
	commands.Refer(opener)
	watcher, err := n.watcher(named, commands)
	if err != nil {
		return of, err
	}
	runner, err := ingestuploads.NewRunner(ingestuploads.RunnerConfig{
		Bounds: n.Uploads.bounds(), Temp: temp, Keep: n.Retention.Uploads,
	}, n.stores.uploads, n.stores.files, n.stores.feeder, n.registry, n.log)
	if err != nil {
		return of, err
	}
	return share{
		parts:  []part{{"runner", runner.Run}, {"feeds", n.stores.feeder.Run}, {"watcher", watcher.Run}},
		routes: []func(endpoint.API){commands.Register, watcher.Register, specifiedUploads, specifiedIngestion},
	}, nil
}

// readUploads tells of uploads.
func (n *node) readUploads() (of share, err error) {
	temp, err := n.uploadsFolder()
	if err != nil {
		return of, err
	}
	reads, err := queryuploads.New(queryuploads.Config{Temp: temp, Pending: n.Uploads.Pending}, queryuploads.Deps{
		Store: n.stores.uploads, Files: n.stores.files, Auth: n.auth, Registry: n.registry, Log: n.log,
	})
	if err != nil {
		return of, err
	}
	exporter, err := queryuploads.NewExporter(queryuploads.ExporterConfig{
		Keep: n.Retention.UploadExports, MaxBytes: n.Uploads.Bytes, Temp: temp,
	}, n.stores.uploads, n.stores.files, n.log)
	if err != nil {
		return of, err
	}
	return share{
		parts:  []part{{"exporter", exporter.Run}},
		routes: []func(endpoint.API){reads.Register, specifiedUploads},
		views:  []live.View{reads.View()},
		gauges: []sampler.Source{queryuploads.Gauges(n.stores.uploads)},
	}, nil
}

// temporaryAge is how long no file lives that reading an XLSX needs. Older ones are of processes that were killed.
const temporaryAge = 24 * time.Hour

// uploadsFolder makes the folder of temporary files, and deletes those that were left there.
func (n *node) uploadsFolder() (string, error) {
	dir := filepath.Join(n.data, "uploads")
	if err := makePrivate(dir); err != nil {
		return "", err
	}
	left, err := os.ReadDir(dir)
	if err != nil {
		return "", fmt.Errorf("look for temporary files of uploads: %w", err)
	}
	for _, entry := range left {
		if info, err := entry.Info(); err == nil && time.Since(info.ModTime()) > temporaryAge {
			_ = os.Remove(filepath.Join(dir, entry.Name())) // the next start tries again
		}
	}
	return dir, nil
}
