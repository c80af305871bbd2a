package event

import (
	"strings"
	"testing"
	"time"
)

// TestFaults: all fields that break a rule are told at once, the first being the
// one that Decode or Validate returns.
func TestFaults(t *testing.T) {
	stages, err := ParseStages(DefaultStages)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 2, 10, 14, 30, 0, 0, time.UTC)
	for text, want := range map[string]string{
		`{`:  ":json",
		`{}`: "occurred_at:missing article_url:missing source_name:missing stage:missing service_name:missing",
		`{"article_url":1,"source_name":"s","stage":"cooked","occurred_at":"2026-02-10T14:30:00Z","service_name":"x"}`: "article_url:type stage:stage_unknown",
		`{"content_url":1,"source_name":"s","stage":"crawled","occurred_at":"2020-02-10T14:30:00Z","service_name":""}`: "content_url:type service_name:missing occurred_at:time_too_old",
		`{"article_url":"x","canonical_url":"y","source_name":"s\u0001","stage":"crawled","occurred_at":"now",` +
			`"service_name":"x","metadata":[],"metadata_schema_version":0}`: "occurred_at:time_format " +
			"metadata:metadata_object metadata_schema_version:schema_version source_name:control_character " +
			"article_url:url canonical_url:url",
		`{"article_url":"https://a.b/","source_name":"s","stage":"crawled","occurred_at":"2020-02-10T14:30:00Z",` +
			`"service_name":"x","metadata":{"backfilled":true}}`: "metadata.backfilled:backfill_forbidden",
		`{"article_url":"https://a.b/","source_name":"s","stage":"crawled","occurred_at":"2026-02-10T14:30:00Z",` +
			`"service_name":"x","metadata":{"quality_score":"text, kept"}}`: "",
	} {
		var r Record
		first := Decode([]byte(text), &r)
		if first == nil {
			first = r.Validate(stages, now, false)
		}
		var got []string
		faults := r.Faults(stages, now, false)
		for _, e := range faults {
			got = append(got, e.Field+":"+e.Code)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s:\n%s, want\n%s", text, strings.Join(got, " "), want)
		}
		if (first == nil) != (len(faults) == 0) || (first != nil && *first != faults[0]) {
			t.Errorf("%s: the first is %v of %v", text, first, faults)
		}
	}
}

// TestMisspelt: what is nearly a field that views use is found, and what is not
// may have any name.
func TestMisspelt(t *testing.T) {
	for metadata, want := range map[string]string{
		`{"qualityScore":1,"Topics":["a"],"model-version":"v1","CHANNEL":"c"}`: "qualityScore=quality_score " +
			"Topics=topics model-version=model_version CHANNEL=channel",
		`{"is_backfilled":true,"isReclassification":true}`: "is_backfilled=backfilled " +
			"isReclassification=is_reclassification",
		`{"model_vesion":"v1","qualtiy_score":3,"is_reclasification":true,"backfiled":true,"content_typ":"x"}`: "model_vesion=model_version qualtiy_score=quality_score " +
			"is_reclasification=is_reclassification backfiled=backfilled content_typ=content_type",
		`{"reclassification":true,"duplicate":false}`:                                              "reclassification=is_reclassification duplicate=is_duplicate",
		`{"reclassification":"by hand","duplicate":"https://example.com/"}`:                        "",
		`{"topics":["a"],"Topics":"a, b","quality_score":1,"qualityScore":2}`:                      "",
		`{"topic":"a","channels":["a"],"quality_scores":[1],"model_versions":["v1"],"chanel":"x"}`: "",
		`{"qualityScore":null,"nested":{"qualityScore":1}}`:                                        "",
		// Those of the specification.
		`{"response_code":200,"content_length":1,"is_duplicate":false,"index":"i","doc_id":"d","quality_score":78,"topics":["a"],"content_type":"article",
			"model_version":"v2.1","processing_time_ms":1,"is_reclassification":true,"confidence":0.5,"content_hash":"x","route_id":1,"channel":"c",
			"min_quality_score":1,"matched_topics":["a"],"redis_subscribers":1,"attempt":1,"backfilled":true,"trace_id":"x","demo":true}`: "",
		"": "",
	} {
		text := `{"article_url":"https://a.b/","source_name":"s","stage":"crawled",` +
			`"occurred_at":"2026-02-10T14:30:00Z","service_name":"x"`
		if metadata != "" {
			text += `,"metadata":` + metadata
		}
		var r Record
		if err := Decode([]byte(text+"}"), &r); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, e := range r.Misspelt() {
			name, is := strings.CutPrefix(e.Field, "metadata.")
			_, rule, _ := strings.Cut(e.Rule, "write ")
			meant, _, _ := strings.Cut(rule, ",")
			if !is || e.Code != "metadata_misspelt" {
				t.Errorf("%s: %+v", metadata, e)
			}
			got = append(got, name+"="+meant)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %s, want %s", metadata, got, want)
		}
	}
	var r Record
	Decode([]byte(`{"metadata":{"qualityScore":1`), &r)
	if found := r.Misspelt(); found != nil {
		t.Errorf("of a text that is cut: %v", found)
	}
}
