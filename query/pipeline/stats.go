package pipeline

import (
	"math"
	"time"

	"github.com/millrace-io/millrace/query/pipeline/store"
	"github.com/millrace-io/millrace/query/reads"
)

// CrawlStats are about the crawl stage.
type CrawlStats struct {
	Total      uint64 `json:"total_crawled" doc:"Events; as count in the funnel" example:"75480"`
	Unique     uint64 `json:"unique_urls" doc:"Distinct articles; as unique_articles in the funnel" example:"71200"`
	Duplicates uint64 `json:"duplicates" doc:"total_crawled without unique_urls" example:"4280"`
	BySource   Counts `json:"by_source" doc:"Events by source"`
}

// ClassificationStats are about the classify stage.
type ClassificationStats struct {
	Total             uint64   `json:"total_classified" doc:"Events; as count in the funnel" example:"12150"`
	Unique            uint64   `json:"unique_articles" doc:"As in the funnel" example:"10002"`
	Reclassifications uint64   `json:"reclassifications" doc:"total_classified without unique_articles" example:"2148"`
	AvgQuality        *float64 `json:"avg_quality_score" doc:"null without a score" example:"72"`
	MedianQuality     *float64 `json:"median_quality_score" example:"75"`
	ByVersion         Counts   `json:"by_model_version" doc:"Events by metadata.model_version"`
	ByTopic           Counts   `json:"by_topic" doc:"Events by topic; an event counts for each of its topics"`
}

// PublishingStats are about the route and publish stages.
type PublishingStats struct {
	Routed    uint64 `json:"total_routed" doc:"Events; as count in the funnel" example:"11990"`
	Published uint64 `json:"total_published" doc:"Events; as count in the funnel" example:"11990"`
	Failed    uint64 `json:"failed_publishes" doc:"total_routed without total_published, also those under way; 0 where more was published" example:"0"`
	ByChannel Counts `json:"by_channel" doc:"Events of the publish stage by metadata.channel"`
}

// Throughput is how long articles take. The six named figures are of articles
// that reached all of crawl, classify and publish within the window.
type Throughput struct {
	MedianCrawlToClassify   *float64     `json:"median_crawl_to_classify_mins" doc:"null without an article" example:"11.2"`
	AvgCrawlToClassify      *float64     `json:"avg_crawl_to_classify_mins" example:"12.4"`
	MedianClassifyToPublish *float64     `json:"median_classify_to_publish_mins" example:"0.6"`
	AvgClassifyToPublish    *float64     `json:"avg_classify_to_publish_mins" example:"0.8"`
	MedianEndToEnd          *float64     `json:"median_end_to_end_mins" example:"11.8"`
	AvgEndToEnd             *float64     `json:"avg_end_to_end_mins" example:"13.2"`
	Articles                uint64       `json:"articles" doc:"How many the figures above are of" example:"9800"`
	Stages                  []StageDelay `json:"stages" doc:"From each stage to the next one that an article reached, of all articles"`
}

// StageDelay is how long articles take from a stage to another.
type StageDelay struct {
	From     string  `json:"from" example:"crawled"`
	To       string  `json:"to" example:"indexed"`
	Articles uint64  `json:"articles" example:"68345"`
	Median   float64 `json:"median_mins" example:"0.02"`
	Avg      float64 `json:"avg_mins" example:"0.03"`
}

// StageRoles says which stages the statistics are about.
type StageRoles struct {
	Crawl    string `json:"crawl" example:"crawled"`
	Classify string `json:"classify" doc:"Empty: the pipeline has none" example:"classified"`
	Route    string `json:"route" example:"routed"`
	Publish  string `json:"publish" example:"published"`
}

// Stats is the answer of GET /stats.
type Stats struct {
	Period         string              `json:"period" enum:"today,24h,7d,30d,custom" example:"today"`
	Timezone       string              `json:"timezone" example:"UTC"`
	Source         string              `json:"source" doc:"Only this source; empty: all"`
	From           time.Time           `json:"from" doc:"As in the funnel" example:"2026-02-10T00:00:00Z"`
	To             time.Time           `json:"to" doc:"As in the funnel" example:"2026-02-10T15:42:00Z"`
	Crawl          CrawlStats          `json:"crawl"`
	Classification ClassificationStats `json:"classification"`
	Publishing     PublishingStats     `json:"publishing"`
	Throughput     Throughput          `json:"throughput"`

	DetailsFrom      time.Time      `json:"details_from" doc:"As from, unless events of the window's begin have been retired: by_…, quality and throughput are of events from here on" example:"2026-02-10T00:00:00Z"`
	Cut              []string       `json:"cut,omitempty" doc:"Which of by_source, by_model_version, by_topic and by_channel have only their largest names, as many as limit and 100,000 at most; absent: none"`
	Totals           Totals         `json:"totals" doc:"What by_source, by_model_version, by_topic and by_channel have in all, names that are cut included"`
	Notes            reads.Notes    `json:"notes,omitempty" doc:"As in the funnel"`
	Roles            StageRoles     `json:"roles" doc:"The stages that this is about"`
	UniqueMethod     string         `json:"unique_method" enum:"exact,sketch" doc:"As in the funnel"`
	UniqueError      float64        `json:"unique_error" doc:"As in the funnel" example:"0"`
	Sample           uint32         `json:"sample" doc:"Medians and throughput are of one article in so many; 1, unless the window is large" example:"1"`
	SkipReclassified bool           `json:"exclude_reclassifications,omitempty" doc:"Reclassifications are left out"`
	GeneratedAt      time.Time      `json:"generated_at" example:"2026-02-10T15:42:00.003Z"`
	Stream           StreamPosition `json:"stream" doc:"The figures are those of the funnel with the same folded_seq"`
}

// newStats takes what the funnel of the same moment has.
func newStats(f Funnel, r store.Roles) Stats {
	stage := map[string]FunnelStage{}
	for _, v := range f.Stages {
		stage[v.Name] = v
	}
	crawl, classify, route, publish := stage[r.Crawl], stage[r.Classify], stage[r.Route], stage[r.Publish]
	out := Stats{
		Period: f.Period, Timezone: f.Timezone, Source: f.Source, From: f.From, To: f.To,
		UniqueMethod: f.UniqueMethod, UniqueError: f.UniqueError, SkipReclassified: f.SkipReclassified,
		GeneratedAt: f.GeneratedAt, Stream: f.Stream, Roles: StageRoles(r),
	}
	out.Crawl.Total, out.Crawl.Unique = crawl.Count, crawl.UniqueArticles
	out.Crawl.Duplicates = crawl.Count - crawl.UniqueArticles
	c := &out.Classification
	c.Total, c.Unique = classify.Count, classify.UniqueArticles
	c.Reclassifications = classify.Count - classify.UniqueArticles
	out.Publishing.Routed, out.Publishing.Published = route.Count, publish.Count
	if route.Count > publish.Count {
		out.Publishing.Failed = route.Count - publish.Count
	}
	return out
}

// add takes breakdowns.
func (s *Stats) add(b store.Breakdowns, quality store.Middle) {
	s.Crawl.BySource = b.Sources
	s.Classification.ByVersion, s.Classification.ByTopic = b.Versions, b.Topics
	s.Classification.AvgQuality, s.Classification.MedianQuality = quality.Mean, quality.Median
	s.Publishing.ByChannel = b.Channels
	total := func(kind string) Total { return Total(b.Totals[kind]) }
	s.Totals = Totals{total("source"), total("version"), total("topic"), total("channel")}
}

// wholeNumber is a number without its fraction, nil for none. What it is given is kept
// for other answers, and stays as it is.
func wholeNumber(v *float64) *float64 {
	if v == nil {
		return nil
	}
	whole := math.Round(*v)
	return &whole
}

// newThroughput turns seconds into minutes, and places into names of stages.
func newThroughput(legs []store.Leg, stages []string) Throughput {
	t := Throughput{Stages: []StageDelay{}}
	for _, l := range legs {
		median, avg := l.Median/60, l.Mean/60
		switch l.Kind {
		case store.EveryLeg:
			t.Stages = append(t.Stages, StageDelay{stages[l.From-1], stages[l.To-1], l.Articles, median, avg})
		case store.CrawlToClassify:
			t.MedianCrawlToClassify, t.AvgCrawlToClassify, t.Articles = &median, &avg, l.Articles
		case store.ClassifyToPublish:
			t.MedianClassifyToPublish, t.AvgClassifyToPublish, t.Articles = &median, &avg, l.Articles
		case store.EndToEnd:
			t.MedianEndToEnd, t.AvgEndToEnd, t.Articles = &median, &avg, l.Articles
		}
	}
	return t
}
