package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sys/unix"

	"github.com/millrace-io/millrace/internal/sampler"
	"github.com/millrace-io/millrace/schemas/stream"
)

// buildInfo tells what was built, and by what.
func buildInfo() prometheus.Collector {
	g := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "millrace_build_info", Help: "1, with the version, the commit and the Go version of the program as labels.",
	}, []string{"version", "commit", "goversion"})
	g.WithLabelValues(version, revision(), runtime.Version()).Set(1)
	return g
}

// sample adds sources of gauges.
func (n *node) sample(sources ...sampler.Source) error {
	var errs []error
	for _, s := range sources {
		errs = append(errs, n.sampler.Add(s))
	}
	return errors.Join(errs...)
}

// clockOfNATS tells how far the clock of NATS is from this process's.
func clockOfNATS(js jetstream.JetStream) sampler.Source {
	return clock("nats", "millrace_nats_clock_offset_seconds", func(ctx context.Context) (time.Time, error) {
		s, err := js.Stream(ctx, stream.Events)
		if err != nil {
			return time.Time{}, err
		}
		return s.CachedInfo().TimeStamp, nil
	})
}

// clock tells how far the clock of a server is from this process's.
func clock(server, metric string, ask func(context.Context) (time.Time, error)) sampler.Source {
	offset := sampler.NewGauge(metric, "How far the clock of "+server+" is ahead of this process's.")
	return sampler.Source{
		Name: server + " clock", Gauges: []*sampler.Gauge{offset},
		Read: func(ctx context.Context, set sampler.Set) error {
			begin := time.Now()
			theirs, err := ask(ctx)
			if err != nil {
				return fmt.Errorf("ask %s for its time: %w", server, err)
			}
			ours := begin.Add(time.Since(begin) / 2)
			set(offset, theirs.Sub(ours).Seconds())
			return nil
		},
	}
}

// disksOfClickHouse tells how much room the disks of ClickHouse have, which may be on another
// machine.
func disksOfClickHouse(conn driver.Conn) sampler.Source {
	free := sampler.NewGauge("millrace_clickhouse_disk_free_bytes", "Room left on a disk of ClickHouse.", "disk")
	size := sampler.NewGauge("millrace_clickhouse_disk_size_bytes", "Size of that disk.", "disk")
	return sampler.Source{
		Name: "clickhouse disks", Gauges: []*sampler.Gauge{free, size},
		Read: func(ctx context.Context, set sampler.Set) error {
			var disks []struct {
				Name string `ch:"name"`
				Free uint64 `ch:"unreserved_space"`
				Size uint64 `ch:"total_space"`
			}
			err := conn.Select(ctx, &disks, "SELECT name, unreserved_space, total_space FROM system.disks WHERE total_space > 0")
			if err != nil {
				return fmt.Errorf("ask for the room on the disks of ClickHouse: %w", err)
			}
			for _, d := range disks {
				set(free, float64(d.Free), d.Name)
				set(size, float64(d.Size), d.Name)
			}
			return nil
		},
	}
}

// storeFolders are the folders below the data folder that may be on disks of their own.
var storeFolders = []string{"nats", "clickhouse", "postgres", "projector"}

// disks tells how much room the data folder has, and those folders in it that are on
// other file systems.
func disks(data string) sampler.Source {
	free := sampler.NewGauge("millrace_disk_free_bytes",
		"Room left for Millrace on the file system of the data folder, or of a folder in it that has its own.", "folder")
	size := sampler.NewGauge("millrace_disk_size_bytes", "Size of that file system.", "folder")
	return sampler.Source{
		Name: "disks", Gauges: []*sampler.Gauge{free, size},
		Read: func(_ context.Context, set sampler.Set) error {
			known := map[unix.Fsid]bool{}
			for _, folder := range append([]string{"."}, storeFolders...) {
				var s unix.Statfs_t
				switch err := unix.Statfs(filepath.Join(data, folder), &s); {
				case errors.Is(err, syscall.ENOENT):
					continue
				case err != nil:
					return fmt.Errorf("ask for the room on the disk of %s: %w", filepath.Join(data, folder), err)
				case known[s.Fsid]:
					continue
				}
				known[s.Fsid] = true
				set(free, float64(s.Bavail)*float64(s.Bsize), folder)
				set(size, float64(s.Blocks)*float64(s.Bsize), folder)
			}
			return nil
		},
	}
}
