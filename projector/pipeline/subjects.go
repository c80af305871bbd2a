package pipeline

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/internal/retry"
	"github.com/millrace-io/millrace/internal/sampler"
	"github.com/millrace-io/millrace/schemas/stream"
)

// SubjectsConfig is of Subjects. The zero value of a field stands for its default.
type SubjectsConfig struct {
	Stages []string // the pipeline's; required
	// Most is how many subjects there may be before the stream is narrowed;
	// default 100,000.
	Most int
	// Every is how often it looks; default 1 s.
	Every time.Duration
}

// Subjects bounds how many subjects the stream of events has.
//
// The broker holds each subject of a stream in memory, and whoever may publish
// events may invent stages and slots: an event of a stage that is not configured
// becomes a dead letter, which can be replayed once it is. So the stream takes all
// stages as long as there are few subjects. Beyond SubjectsConfig.Most it is narrowed to
// the subjects that events of the pipeline have: the publisher of any other one is
// told that no stream takes it, and nothing else changes. It takes all of them
// again when most of what was invented has been removed, by age or by hand.
//
// It runs beside a projector. Every projector may carry this out at any time, also several at once.
type Subjects struct {
	cfg SubjectsConfig
	js  jetstream.JetStream
	log *slog.Logger
}

// NewSubjects checks the configuration and starts nothing.
func NewSubjects(cfg SubjectsConfig, js jetstream.JetStream, log *slog.Logger) (*Subjects, error) {
	if len(cfg.Stages) == 0 || cfg.Most < 0 || cfg.Every < 0 {
		return nil, errors.New("bound the subjects of events: stages are needed, and limits that are not negative")
	}
	if cfg.Most == 0 {
		cfg.Most = 100_000
	}
	if cfg.Every == 0 {
		cfg.Every = time.Second
	}
	return &Subjects{cfg: cfg, js: js, log: log.With("component", "subjects")}, nil
}

// Gauges returns the gauges of the stream's subjects.
func (g *Subjects) Gauges() sampler.Source {
	subjects := sampler.NewGauge("millrace_events_subjects", "Subjects of the stream of events.")
	narrowed := sampler.NewGauge("millrace_events_narrowed", "1 while the stream of events refuses stages that are not "+
		"configured, since there are too many subjects.")
	return sampler.Source{
		Name: "subjects", Gauges: []*sampler.Gauge{subjects, narrowed},
		Read: func(ctx context.Context, set sampler.Set) error {
			s, err := g.js.Stream(ctx, stream.Events)
			if err != nil {
				return fmt.Errorf("open stream %s: %w", stream.Events, err)
			}
			info := s.CachedInfo()
			set(subjects, float64(info.State.NumSubjects))
			is := 1.0
			if slices.Equal(info.Config.Subjects, []string{stream.EventSubjects}) {
				is = 0
			}
			set(narrowed, is)
			return nil
		},
	}
}

// Run looks until ctx ends. What fails is tried again in the next round.
func (g *Subjects) Run(ctx context.Context) error {
	return retry.Every(ctx, g.cfg.Every, g.Round,
		retry.Warn(g.log, "cannot bound the subjects of events for now", "retry_in", g.cfg.Every))
}

// subjectsLimit bounds a round, which makes two requests.
const subjectsLimit = 30 * time.Second

// Round narrows the stream, or widens it again, where that is due.
func (g *Subjects) Round(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, subjectsLimit)
	defer cancel()
	s, err := g.js.Stream(ctx, stream.Events)
	if err != nil {
		return fmt.Errorf("open stream %s: %w", stream.Events, err)
	}
	cfg, there := s.CachedInfo().Config, int(s.CachedInfo().State.NumSubjects)
	wide := []string{stream.EventSubjects}
	want := cfg.Subjects
	switch {
	case there > g.cfg.Most:
		want = g.exact(cfg.Subjects)
	case there <= g.cfg.Most/2:
		want = wide
	}
	if slices.Equal(want, cfg.Subjects) {
		return nil
	}
	cfg.Subjects = want
	if _, err := g.js.UpdateStream(ctx, cfg); err != nil {
		return fmt.Errorf("change the subjects of stream %s: %w", stream.Events, err)
	}
	if slices.Equal(want, wide) {
		g.log.Info("the stream of events takes all stages again", "subjects", there)
	} else {
		g.log.Error("publishers have invented subjects for events: the stream takes those of the pipeline's stages "+
			"alone for now",
			"subjects", there, "most", g.cfg.Most, "stages", g.cfg.Stages)
	}
	return nil
}

// exact are the subjects of the pipeline's events, with those that a projector of
// other stages has set already.
func (g *Subjects) exact(present []string) []string {
	var all []string
	for _, subject := range present {
		if subject != stream.EventSubjects {
			all = append(all, subject)
		}
	}
	for _, stage := range g.cfg.Stages {
		for slot := range stream.Slots {
			all = append(all, stream.EventSubject(stage, [sha256.Size]byte{byte(slot)}))
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}
