package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/millrace-io/millrace/internal/httpapi"
	"github.com/millrace-io/millrace/internal/sampler"
	"github.com/millrace-io/millrace/query/pipeline/mirror"
	"github.com/millrace-io/millrace/query/reads"
	"github.com/millrace-io/millrace/schemas/funnel"
)

// Gap is a rule of the pipeline: of the articles that reach one stage within
// an hour, at least a share is to reach another one within the same hour.
type Gap struct {
	From, To string  // stages
	Least    float64 // share, within (0, 1]
}

// UnmarshalText reads from:to:least, such as indexed:classified:0.8.
func (g *Gap) UnmarshalText(text []byte) error {
	parts := strings.Split(string(text), ":")
	if len(parts) != 3 {
		return fmt.Errorf("%q is not stage:stage:share", text)
	}
	least, err := strconv.ParseFloat(parts[2], 64)
	if err != nil || !(least > 0 && least <= 1) {
		return fmt.Errorf("%q: the share must be within 0 and 1", text)
	}
	*g = Gap{parts[0], parts[1], least}
	return nil
}

// gapWindow is how far back a gap is looked for.
const gapWindow = time.Hour

// gapKeep is for how long a look serves /ready, if the next ones fail.
const gapKeep = time.Minute

// knownGaps leaves out rules of stages that the pipeline does not have, and of
// several rules of the same stages all but the last.
func knownGaps(gaps []Gap, stages []string) (known []Gap) {
	for _, g := range gaps {
		known = slices.DeleteFunc(known, func(k Gap) bool { return k.From == g.From && k.To == g.To })
		if slices.Contains(stages, g.From) && slices.Contains(stages, g.To) {
			known = append(known, g)
		}
	}
	return known
}

// ratio is how a rule is kept.
type ratio struct {
	Gap
	share float64
}

// ratios are how all rules are kept whose first stage has been reached at all.
type ratios struct {
	at  time.Time
	all []ratio
}

func (s *Service) lookForGaps(ctx context.Context) ([]ratio, error) {
	if len(s.cfg.Gaps) == 0 {
		return nil, nil
	}
	lastHour := func(now time.Time) reads.Window {
		return reads.Window{From: now.Add(-gapWindow).UTC(), To: now.UTC(), Live: true}
	}
	a, err := s.mirror.Funnel(ctx, "", lastHour, mirror.Auto)
	if errors.Is(err, mirror.ErrBusy) { // events come late all the time: do without single ones
		a, err = s.mirror.Funnel(ctx, "", func(now time.Time) reads.Window {
			w := lastHour(now)
			w.From = w.From.Truncate(time.Duration(funnel.Quarter) * time.Second)
			return w
		}, mirror.Auto)
	}
	if err != nil {
		return nil, err
	}
	names := s.cfg.Stages.Names()
	articles := func(stage string) float64 { return float64(a.Stages[slices.Index(names, stage)].Articles) }
	var out []ratio
	for _, g := range s.cfg.Gaps {
		if from := articles(g.From); from > 0 {
			out = append(out, ratio{g, articles(g.To) / from})
		}
	}
	return out, nil
}

// gapCheck tells of gaps on /ready. They are no reason not to be.
func (s *Service) gapCheck() httpapi.Check {
	return httpapi.Check{
		Name:  "pipeline",
		Probe: func(context.Context) error { return nil },
		Note: func(context.Context) httpapi.Note {
			last := s.gaps.Load()
			if last == nil || s.cfg.Now().Sub(last.at) > gapKeep {
				return httpapi.Note{} // the check of the funnel says why
			}
			var gaps []string
			for _, r := range last.all {
				if r.share < r.Least {
					gaps = append(gaps, fmt.Sprintf("%s is at %.0f %% of %s over the last hour, under %.0f %%",
						r.To, 100*r.share, r.From, 100*r.Least))
				}
			}
			return httpapi.Note{Warning: strings.Join(gaps, "; ")}
		},
	}
}

// Gauges returns the gauges of gaps. Each read looks for gaps, for /ready as well: while events come late, it reads
// the single events of the quarter in which the hour begins.
func (s *Service) Gauges() sampler.Source {
	share := sampler.NewGauge("pipeline_gap_ratio",
		"Distinct articles of one stage over those of another, over a rolling hour; absent while the other has none.",
		"from", "to")
	threshold := sampler.NewGauge("pipeline_gap_threshold", "The ratio under which there is a gap.", "from", "to")
	return sampler.Source{
		Name: "gaps", Gauges: []*sampler.Gauge{share, threshold},
		Read: func(ctx context.Context, set sampler.Set) error {
			all, err := s.lookForGaps(ctx)
			if err == nil {
				s.gaps.Store(&ratios{s.cfg.Now(), all})
			} else if !errors.Is(err, mirror.ErrNotLoaded) {
				return err
			}
			if s.streamEnd.standsStill() {
				return nil // the last hour is not in the views
			}
			for _, g := range s.cfg.Gaps {
				set(threshold, g.Least, g.From, g.To)
			}
			for _, r := range all {
				set(share, r.share, r.From, r.To)
			}
			return nil
		},
	}
}
