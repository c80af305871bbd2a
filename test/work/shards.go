package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"golang.org/x/sync/errgroup"
)

// stages are the queues of shards.
var stages = []string{"shard-splitter", "shard-worker", "mysql-sender"}

// shards are files' shards, which go through all stages.
type shards struct {
	files, each int
	in          *installation
}

func (s *shards) queues() []string { return stages }

func (s *shards) items() int { return s.files * s.each }

func (s *shards) pieces() int { return s.items() * len(stages) }

// add registers the files, over HTTP.
func (s *shards) add(ctx context.Context) error {
	list := make([]int, s.each)
	for i := range list {
		list[i] = i
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(4)
	for i := range s.files {
		g.Go(func() error {
			name := fmt.Sprintf("2025%010d", i)
			err := s.in.insist(ctx, http.MethodPost, "/pipeline/files/register",
				map[string]any{"filename": name, "shards": list}, nil)
			if err != nil {
				return err
			}
			return s.in.insist(ctx, http.MethodPost, "/pipeline/stages/event-ingest/done",
				map[string]any{"filename": name}, nil)
		})
	}
	return g.Wait()
}

func (s *shards) done(ctx context.Context) (n, of int, err error) {
	sum, err := s.summary(ctx)
	return sum.count(stages[len(stages)-1], "done"), s.items(), err
}

// summary is GET /metrics/summary.
type summary struct {
	Total   int                       `json:"total"`
	ByStage map[string]map[string]any `json:"by_stage"`
	ByShard []struct {
		Shard, Total, Done, Failed int
	} `json:"by_shard"`
}

func (s summary) count(stage, status string) int {
	n, _ := s.ByStage[strings.ReplaceAll(stage, "-", "_")][status].(float64)
	return int(n)
}

func (s *shards) summary(ctx context.Context) (sum summary, err error) {
	return sum, s.in.ask(ctx, http.MethodGet, "/pipeline/metrics/summary", nil, &sum)
}

// check looks at the history, which has one end a piece whatever else happened,
// and at the summary.
func (s *shards) check(ctx context.Context) error {
	return errors.Join(s.checkRecord(ctx), s.checkSummary(ctx))
}

func (s *shards) checkRecord(ctx context.Context) error {
	pool, err := s.in.pool(ctx)
	if err != nil {
		return err
	}
	defer pool.Close()
	var done, pieces int
	err = pool.QueryRow(ctx, `SELECT count(*), count(DISTINCT (item_id, stage)) FROM millrace.history
		WHERE stage > 0 AND move = 'done'`).Scan(&done, &pieces)
	if err != nil {
		return fmt.Errorf("read the history: %w", err)
	}
	if done != s.pieces() || pieces != s.pieces() {
		return fmt.Errorf("the history has %d ends of %d pieces, not %d", done, pieces, s.pieces())
	}
	return nil
}

// checkSummary compares the summary with what was registered.
func (s *shards) checkSummary(ctx context.Context) error {
	sum, err := s.summary(ctx)
	if err != nil {
		return err
	}
	var errs []error
	if sum.Total != s.items() {
		errs = append(errs, fmt.Errorf("the summary counts %d items, not %d", sum.Total, s.items()))
	}
	for _, stage := range stages {
		if sum.count(stage, "done") != s.items() ||
			sum.count(stage, "new")+sum.count(stage, "started")+sum.count(stage, "failed") != 0 {
			errs = append(errs, fmt.Errorf("the summary has at %s: %v", stage, sum.ByStage))
		}
	}
	if len(sum.ByShard) != s.each {
		errs = append(errs, fmt.Errorf("the summary has %d shards, not %d", len(sum.ByShard), s.each))
	}
	for _, one := range sum.ByShard {
		if one.Total != s.files || one.Done != s.files || one.Failed != 0 {
			errs = append(errs, fmt.Errorf("the summary has %+v", one))
		}
	}
	return errors.Join(errs...)
}
