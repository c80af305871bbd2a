package main

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/millrace-io/millrace/ingest/batches"
	"github.com/millrace-io/millrace/internal/endpoint"
	"github.com/millrace-io/millrace/internal/objects"
	"github.com/millrace-io/millrace/internal/reclassify"
	"github.com/millrace-io/millrace/internal/recrawl"
	projectorbatches "github.com/millrace-io/millrace/projector/batches"
	"github.com/millrace-io/millrace/projector/enrichment"
	querybatches "github.com/millrace-io/millrace/query/batches"
	"github.com/millrace-io/millrace/query/batches/itemindex"
	"github.com/millrace-io/millrace/query/live"

	schema "github.com/millrace-io/millrace/schemas/batches"
)

// batchSettings say which batches are read, how, and from where.
type batchSettings struct {
	NewMode       bool          `help:"Take data.collected events. \"millrace batches modes\" changes it while Millrace runs; a new value here counts from the next start." env:"MILLRACE_NEW_MODE_ENABLED,NEW_MODE_ENABLED" name:"new-mode-enabled" default:"true" negatable:""`
	LegacyMode    bool          `help:"Take messages with data_ref, as above." env:"MILLRACE_LEGACY_MODE_ENABLED,LEGACY_MODE_ENABLED" name:"legacy-mode-enabled" default:"true" negatable:""`
	NewModeShare  float64       `help:"Share of jobs, from 0 to 1, whose data.collected events are taken, as above." env:"MILLRACE_NEW_MODE_SHARE,NEW_MODE_SHARE" name:"new-mode-share" default:"1"`
	MaxConcurrent int           `help:"Batches that are read at once. One bucket has at most half of them." env:"MILLRACE_MAX_CONCURRENT_BATCHES,MAX_CONCURRENT_BATCHES" name:"max-concurrent-batches" default:"5"`
	Patience      time.Duration `help:"How long the object of a batch may be missing before its message becomes a dead letter." env:"MILLRACE_OBJECT_PATIENCE" name:"object-patience" default:"5m"`
	S3Endpoint    string        `help:"URL of S3 or MinIO, such as http://minio:9000, which objects are read from. Without it, and without a folder, they are read from the NATS Object Store." env:"MILLRACE_S3_ENDPOINT" name:"s3-endpoint"`
	S3AccessKey   string        `help:"Access key of S3." env:"MILLRACE_S3_ACCESS_KEY" name:"s3-access-key"`
	S3SecretKey   string        `help:"Secret key of S3." env:"MILLRACE_S3_SECRET_KEY" name:"s3-secret-key"`
	S3Region      string        `help:"Region of the buckets; without it, the server is asked." env:"MILLRACE_S3_REGION" name:"s3-region"`
	KeyPattern    string        `help:"Regular expression with the groups job and index, and maybe platform, which finds in the key of an object which batch it holds: for notifications of buckets, of objects whose metadata does not say." env:"MILLRACE_S3_KEY_PATTERN" name:"s3-key-pattern" default:"^(?:(?P<platform>[^/]+)/)?(?P<job>[^/]+)/(?:batch_)?(?P<index>[0-9]+)\\.[^/]*$"`
	ItemIndex     bool          `help:"Keep an index of items by their content id in the data folder of processes with the role query, about 150 bytes of disk for each outcome. Without it, and with a cluster of ClickHouse, ClickHouse is asked for each item." env:"MILLRACE_ITEM_INDEX" name:"item-index" default:"true" negatable:""`
	Enrichment    string        `help:"Whether items are enriched after their outcomes are stored: off; formulas: engagement and impact; analyser: also what an analyser answers on NATS." env:"MILLRACE_ENRICHMENT" name:"enrichment" enum:"off,formulas,analyser" default:"off"`
	Analyser      time.Duration `help:"How long an analyser may take for a request." env:"MILLRACE_ANALYSER_TIMEOUT" name:"analyser-timeout" default:"10s"`
	Folder        string        `help:"Folder whose folders are the buckets that objects are read from, in the place of S3." env:"MILLRACE_OBJECTS_FOLDER" name:"objects-folder" type:"path"`
}

// storage is where objects are read from.
func (b batchSettings) storage(n *objects.NATS) (objects.Storage, error) {
	switch {
	case b.S3Endpoint != "" && b.Folder != "":
		return nil, errors.New("MILLRACE_S3_ENDPOINT and MILLRACE_OBJECTS_FOLDER must not both be set: objects are read " +
			"from one of them")
	case b.S3Endpoint != "":
		return b.s3()
	case b.Folder != "":
		return objects.OpenFiles(b.Folder)
	}
	return n, nil
}

// s3 is the server of S3.
func (b batchSettings) s3() (*objects.S3, error) {
	return objects.NewS3(objects.S3Config{
		Endpoint: b.S3Endpoint, AccessKey: b.S3AccessKey, SecretKey: b.S3SecretKey, Region: b.S3Region,
	})
}

// batchModes are those of the installation.
func (n *node) batchModes() (*batches.Modes, error) {
	b := n.Batches
	return batches.NewModes(n.js, schema.Modes{New: b.NewMode, Legacy: b.LegacyMode, NewShare: b.NewModeShare})
}

// takeObjects takes announcements of batches of crawled items, and objects that hold them.
func (n *node) takeObjects() (of share, err error) {
	modes, err := n.batchModes()
	if err != nil {
		return of, err
	}
	in, err := batches.New(batches.Deps{
		JetStream: n.js, Objects: n.objectsInNATS(), Modes: modes, Auth: n.auth, Log: n.log,
	})
	if err != nil {
		return of, err
	}
	return share{routes: []func(endpoint.API){in.Register}}, nil
}

func (n *node) objectsInNATS() *objects.NATS { return objects.NewNATS(n.js, max(n.work.Replicas, 1)) }

// retryOutcomes is the advisory lock of the process that publishes the outcomes of retries.
const retryOutcomes int64 = 0x6d696c6c_72637263

// openRetries makes the store of errors of batches that are tried again. They are moved in every role.
func (n *node) openRetries() (err error) {
	if n.stores.recrawl, err = recrawl.New(n.stores.own, n.log); err != nil {
		return err
	}
	n.stores.acts.Add(n.stores.recrawl.Subject())
	return n.sample(recrawl.Gauges(n.database.pool))
}

// runRetries has errors tried again, and publishes their outcomes.
func (n *node) runRetries() (of share, err error) {
	outcomes, err := n.publisher(retryOutcomes, n.stores.recrawl.Outbox())
	if err != nil {
		return of, err
	}
	return share{parts: []part{{"feeds", n.stores.recrawl.Run}, {"outcomes", outcomes.Run}}}, nil
}

// takeBatches reads the batches that messages announce.
func (n *node) takeBatches() (of share, err error) {
	modes, err := n.batchModes()
	if err != nil {
		return of, err
	}
	storage, err := n.Batches.storage(n.objectsInNATS())
	if err != nil {
		return of, err
	}
	keys, err := schema.ParseKeyPattern(cmp.Or(n.Batches.KeyPattern, schema.DefaultKeyPattern))
	if err != nil {
		return of, fmt.Errorf("MILLRACE_S3_KEY_PATTERN: %w", err)
	}
	readers, err := batches.NewReaders(
		batches.ReadersConfig{MaxConcurrent: n.Batches.MaxConcurrent, Patience: n.Batches.Patience, Keys: keys},
		batches.ReadersDeps{
			JetStream: n.js, Postgres: n.database.pool, Storage: storage, Modes: modes, Tracer: n.tracer,
			Registry: n.registry, Log: n.log,
		})
	if err != nil {
		return of, err
	}
	return share{parts: []part{{"readers", readers.Run}}, gauges: readers.Gauges()}, nil
}

// storeBatches stores what was read of batches.
func (n *node) storeBatches() (of share, err error) {
	service, err := projectorbatches.New(projectorbatches.Deps{
		NATS: n.nats, ClickHouse: n.clickhouse, Postgres: n.database.pool, Registry: n.registry, Tracer: n.tracer,
		Slow: n.slow, Log: n.log,
	})
	if err != nil {
		return of, err
	}
	return share{clickhouse: true, parts: []part{{"outcomes", service.Run}}, gauges: service.Gauges()}, nil
}

// enrichItems finds out more about items, if a setting says so.
func (n *node) enrichItems() (of share, err error) {
	if n.Batches.Enrichment == "off" || n.Batches.Enrichment == "" {
		return of, nil
	}
	service, err := enrichment.New(enrichment.Config{
		Analyse: n.Batches.Enrichment == "analyser", Timeout: n.Batches.Analyser,
	}, enrichment.Deps{
		NATS: n.nats, ClickHouse: n.clickhouse, Postgres: n.database.pool, Registry: n.registry, Log: n.log,
	})
	if err != nil {
		return of, err
	}
	return share{clickhouse: true, parts: []part{{"enrichment", service.Run}}, gauges: service.Gauges()}, nil
}

// readBatches tells what became of batches of crawled items.
func (n *node) readBatches() (of share, err error) {
	index, err := n.itemIndex()
	if err != nil {
		return of, err
	}
	if index != nil {
		of.clickhouse, of.parts = true, []part{{"index of items", index.Run}}
	}
	reads, err := querybatches.New(querybatches.Deps{
		Postgres: n.database.pool, ClickHouse: n.reads, Index: index, Registry: n.registry, Log: n.log,
	})
	if err != nil {
		return of, err
	}
	again, err := reclassify.New(reclassify.Deps{
		Postgres: n.database.pool, ClickHouse: n.reads, Topology: n.topology,
	})
	if err != nil {
		return of, err
	}
	of.routes, of.views = []func(endpoint.API){reads.Register, again.Register}, []live.View{reads.View()}
	return of, nil
}

// itemIndex is the index of items by their content id; nil: there is none. There is none
// over a cluster: its replicas may lag behind each other, and the index could not know what it lacks.
func (n *node) itemIndex() (*itemindex.Index, error) {
	if !n.Batches.ItemIndex || n.topology.Cluster != "" {
		return nil, nil
	}
	return itemindex.New(filepath.Join(n.data, "items"), itemindex.Deps{
		JetStream: n.js, ClickHouse: n.reads, Registry: n.registry, Log: n.log,
	})
}
