package batches

import (
	"encoding/json"
	"math"
	"strconv"
)

// Interactions is what people did with an item, as far as it says; negative: it does not.
type Interactions struct{ Views, Likes, Comments, Shares, Saves float64 }

// interactionNames are the members of an item, of its member interaction, or of its member
// meta that say how often something was done: the first one that is there counts.
var interactionNames = [...][]string{
	{"views", "view_count", "playCount", "play_count"},
	{"likes", "likes_count", "like_count", "diggCount", "digg_count"},
	{"comments_count", "comment_count", "commentCount", "comment_total", "comments"},
	{"shares", "shares_count", "share_count", "shareCount"},
	{"saves", "saves_count", "save_count", "collectCount", "collect_count"},
}

// ReadInteractions reads what an item says. Numbers may be texts. What is no number from 0 on
// is not said.
func ReadInteractions(content []byte) Interactions {
	var own, inner, meta map[string]json.RawMessage
	_ = json.Unmarshal(content, &own) // of what is no object nothing is known
	_ = json.Unmarshal(own["interaction"], &inner)
	_ = json.Unmarshal(own["meta"], &meta)
	var found [len(interactionNames)]float64
	for i, names := range interactionNames {
		found[i] = -1
		for _, from := range []map[string]json.RawMessage{inner, own, meta} {
			for _, name := range names {
				if n, ok := count(from[name]); ok && found[i] < 0 {
					found[i] = n
				}
			}
		}
	}
	return Interactions{found[0], found[1], found[2], found[3], found[4]}
}

func count(value json.RawMessage) (float64, bool) {
	var text string
	if json.Unmarshal(value, &text) != nil {
		text = string(value)
	}
	n, err := strconv.ParseFloat(text, 64)
	return n, err == nil && n >= 0 && !math.IsInf(n, 0)
}

// Engagement is likes + 2 · comments + 3 · shares + 2 · saves, of those that are known. It is
// false when none is, and when no float64 holds the sum.
func (i Interactions) Engagement() (sum float64, known bool) {
	for _, part := range [...]struct{ n, weight float64 }{{i.Likes, 1}, {i.Comments, 2}, {i.Shares, 3}, {i.Saves, 2}} {
		if part.n >= 0 {
			sum, known = sum+part.n*part.weight, true
		}
	}
	return sum, known && !math.IsInf(sum, 0)
}

// EngagementRate is the engagement for each view. It is false when one of both is not known,
// there are no views, or no float64 holds it.
func (i Interactions) EngagementRate() (float64, bool) {
	sum, known := i.Engagement()
	if !known || i.Views <= 0 {
		return 0, false
	}
	rate := sum / i.Views
	return rate, !math.IsInf(rate, 0)
}

// Impact is from 0 to 100: 12.5 · log10(1 + views + 10 · engagement), of those that are
// known. 100 is reached at a hundred million. It is false when neither is known.
func (i Interactions) Impact() (float64, bool) {
	sum, known := i.Engagement()
	if i.Views < 0 && !known {
		return 0, false
	}
	return min(100, 12.5*math.Log10(1+max(i.Views, 0)+10*sum)), true
}
