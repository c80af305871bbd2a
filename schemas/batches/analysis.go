package batches

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// AnalyserRequest is what an analyser is asked: what it finds out about some items. Without
// items it is asked whether it is there.
type AnalyserRequest struct {
	Items []AnalyserItem `json:"items"`
}

// AnalyserItem is an item that is analysed.
type AnalyserItem struct {
	JobID         string          `json:"job_id"`
	BatchIndex    uint32          `json:"batch_index"`
	Position      uint32          `json:"position"`
	Attempts      uint64          `json:"attempts"` // retries that the outcome took
	ContentID     string          `json:"content_id"`
	ProjectID     string          `json:"project_id,omitempty"`
	Platform      string          `json:"platform,omitempty"`
	KeywordSource string          `json:"keyword_source,omitempty"`
	CrawledAt     *time.Time      `json:"crawled_at,omitempty"`
	Content       json.RawMessage `json:"content"` // the whole item, as it was crawled
}

// AnalyserReply is the answer: an analysis for each item, in the order of the request.
type AnalyserReply struct {
	Analyser string     `json:"analyser"` // its name and version
	Items    []Analysis `json:"items"`
	// Error says that nothing could be analysed.
	Error string `json:"error"`
}

// Analysis is what an analyser has found out about an item. What is empty is not known.
type Analysis struct {
	Sentiment      string   `json:"sentiment"`
	SentimentScore *float64 `json:"sentiment_score"` // from -1 to 1
	Intent         string   `json:"intent"`
	Language       string   `json:"language"`
	Keywords       []string `json:"keywords"`
	Risk           string   `json:"risk"`
	// Error says why the item could not be analysed.
	Error string `json:"error"`
}

// What an analysis may say.
var (
	Sentiments = []string{"positive", "neutral", "negative", "mixed"}
	Risks      = []string{"none", "low", "medium", "high", "critical"}
)

// Bounds of an analysis.
const (
	maxAnalysisText = 255 // bytes of a text
	MaxKeywords     = 100
	maxErrorText    = 4096
)

// ReadAnalyserReply reads the answer about so many items.
func ReadAnalyserReply(text []byte, items int) (r AnalyserReply, err error) {
	if !utf8.Valid(text) {
		return r, errors.New("it must be valid UTF-8")
	}
	if err := json.Unmarshal(text, &r); err != nil {
		return r, fmt.Errorf("it must be a JSON object with analyser and items: %w", err)
	}
	switch {
	case r.Error != "":
		return r, fmt.Errorf("it is the error %.200q", r.Error)
	case r.Analyser == "" || len(r.Analyser) > maxAnalysisText:
		return r, fmt.Errorf("analyser: must be a name of 1 to %d bytes", maxAnalysisText)
	case len(r.Items) != items:
		return r, fmt.Errorf("items: must be %d, one for each item of the request, not %d", items, len(r.Items))
	}
	for i := range r.Items {
		if err := r.Items[i].check(); err != nil {
			r.Items[i] = Analysis{Error: err.Error()}
		}
		if e := &r.Items[i].Error; len(*e) > maxErrorText {
			*e = strings.ToValidUTF8((*e)[:maxErrorText], "")
		}
	}
	return r, nil
}

// check returns the rule that the analysis breaks.
func (a *Analysis) check() error {
	switch {
	case a.Sentiment != "" && !slices.Contains(Sentiments, a.Sentiment):
		return fmt.Errorf("sentiment: must be one of %q, not %.80q", Sentiments, a.Sentiment)
	case a.Risk != "" && !slices.Contains(Risks, a.Risk):
		return fmt.Errorf("risk: must be one of %q, not %.80q", Risks, a.Risk)
	case a.SentimentScore != nil && (*a.SentimentScore < -1 || *a.SentimentScore > 1):
		return errors.New("sentiment_score: must be from -1 to 1")
	case len(a.Intent) > maxAnalysisText || len(a.Language) > maxAnalysisText:
		return fmt.Errorf("intent and language: must have at most %d bytes", maxAnalysisText)
	case len(a.Keywords) > MaxKeywords:
		return fmt.Errorf("keywords: must be at most %d", MaxKeywords)
	}
	for _, k := range a.Keywords {
		if k == "" || len(k) > maxAnalysisText {
			return fmt.Errorf("keywords: must have 1 to %d bytes each", maxAnalysisText)
		}
	}
	return nil
}
