package main

import (
	"cmp"
	"math"
	"slices"
)

// stats are the statistics of GET /stats.
type stats struct {
	Crawl struct {
		Total      int            `json:"total_crawled"`
		Unique     int            `json:"unique_urls"`
		Duplicates int            `json:"duplicates"`
		BySource   map[string]int `json:"by_source"`
	} `json:"crawl"`
	Classification struct {
		Total     int            `json:"total_classified"`
		Unique    int            `json:"unique_articles"`
		Again     int            `json:"reclassifications"`
		Mean      *float64       `json:"avg_quality_score"`
		Median    *float64       `json:"median_quality_score"`
		ByVersion map[string]int `json:"by_model_version"`
		ByTopic   map[string]int `json:"by_topic"`
	} `json:"classification"`
	Publishing struct {
		Routed    int            `json:"total_routed"`
		Published int            `json:"total_published"`
		Failed    int            `json:"failed_publishes"`
		ByChannel map[string]int `json:"by_channel"`
	} `json:"publishing"`
	Throughput throughput `json:"throughput"`
}

// throughput is how long articles took, in minutes.
type throughput struct {
	CrawlMedian   *float64 `json:"median_crawl_to_classify_mins"`
	CrawlMean     *float64 `json:"avg_crawl_to_classify_mins"`
	PublishMedian *float64 `json:"median_classify_to_publish_mins"`
	PublishMean   *float64 `json:"avg_classify_to_publish_mins"`
	Median        *float64 `json:"median_end_to_end_mins"`
	Mean          *float64 `json:"avg_end_to_end_mins"`
	Articles      int      `json:"articles"`
	Stages        []leg    `json:"stages"`
}

// leg is the way from a stage to the next that articles reached.
type leg struct {
	From     string   `json:"from"`
	To       string   `json:"to"`
	Articles int      `json:"articles"`
	Median   *float64 `json:"median_mins"`
	Mean     *float64 `json:"avg_mins"`
}

// Places of stages in the pipeline that statistics are about.
const (
	crawled = iota
	_
	classified
	routed
	published
	stageCount
)

// newStats are the statistics of the events of a window.
func newStats(events []*told) (s stats) {
	n := byStage(events)
	crawl, class, publish := &s.Crawl, &s.Classification, &s.Publishing
	crawl.Total, crawl.Unique = n[crawled].events, len(n[crawled].articles)
	class.Total, class.Unique = n[classified].events, len(n[classified].articles)
	crawl.Duplicates, class.Again = crawl.Total-crawl.Unique, class.Total-class.Unique
	publish.Routed, publish.Published = n[routed].events, n[published].events
	publish.Failed = max(0, publish.Routed-publish.Published)
	crawl.BySource, publish.ByChannel = map[string]int{}, map[string]int{}
	class.ByVersion, class.ByTopic = map[string]int{}, map[string]int{}
	var scores []float64
	for _, e := range events {
		switch e.Stage {
		case stageNames()[crawled]:
			crawl.BySource[e.Source]++
		case stageNames()[classified]:
			add(class.ByVersion, e.meta.model)
			for _, topic := range distinct(e.meta.topics) {
				class.ByTopic[topic]++
			}
			if e.meta.quality != nil {
				scores = append(scores, *e.meta.quality)
			}
		case stageNames()[published]:
			add(publish.ByChannel, e.meta.channel)
		}
	}
	class.Mean, class.Median = middle(scores)
	s.Throughput = newThroughput(events)
	return s
}

// add counts by a name, unless there is none.
func add(counts map[string]int, name string) {
	if name != "" {
		counts[name]++
	}
}

// middle is where numbers lie; of an even number of them the median is half way
// between two. Both are nil without any.
func middle(values []float64) (mean, median *float64) {
	if len(values) == 0 {
		return nil, nil
	}
	slices.Sort(values)
	sum, half := 0.0, len(values)/2
	for _, v := range values {
		sum += v
	}
	sum /= float64(len(values))
	between := values[half]
	if len(values)%2 == 0 {
		between = (values[half-1] + values[half]) / 2
	}
	return &sum, &between
}

// reached is when an article first reached each stage, Unix nanoseconds; 0 is
// not at all.
type reached [stageCount]int64

func reach(events []*told) map[string]*reached {
	all := map[string]*reached{}
	for _, e := range events {
		at := all[e.hash]
		if at == nil {
			at = new(reached)
			all[e.hash] = at
		}
		if i := slices.Index(stageNames(), e.Stage); at[i] == 0 || e.at < at[i] {
			at[i] = e.at
		}
	}
	return all
}

// minutes from a stage to another; clocks that disagree make it none.
func (r *reached) minutes(from, to int) float64 {
	return math.Max(0, float64(r[to]-r[from])) / 60e9
}

func newThroughput(events []*told) (t throughput) {
	type ends struct{ from, to int }
	legs := map[ends][]float64{}
	var crawl, publish, whole []float64
	for _, at := range reach(events) {
		before := -1
		for i := range at {
			if at[i] == 0 {
				continue
			}
			if before >= 0 {
				legs[ends{before, i}] = append(legs[ends{before, i}], at.minutes(before, i))
			}
			before = i
		}
		if at[crawled] > 0 && at[classified] > 0 && at[published] > 0 {
			crawl = append(crawl, at.minutes(crawled, classified))
			publish = append(publish, at.minutes(classified, published))
			whole = append(whole, at.minutes(crawled, published))
		}
	}
	t.CrawlMean, t.CrawlMedian = middle(crawl)
	t.PublishMean, t.PublishMedian = middle(publish)
	t.Mean, t.Median = middle(whole)
	t.Articles, t.Stages = len(whole), []leg{}
	for e, values := range legs {
		l := leg{From: stageNames()[e.from], To: stageNames()[e.to], Articles: len(values)}
		l.Mean, l.Median = middle(values)
		t.Stages = append(t.Stages, l)
	}
	place := func(name string) int { return slices.Index(stageNames(), name) }
	slices.SortFunc(t.Stages, func(a, b leg) int {
		return cmp.Or(cmp.Compare(place(a.From), place(b.From)), cmp.Compare(place(a.To), place(b.To)))
	})
	return t
}
