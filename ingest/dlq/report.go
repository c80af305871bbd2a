package dlq

// maxKept bounds how many of the letters that stay a report describes; it
// counts all of them.
const maxKept = 100

// LetterReport is what a replay or a purge did, or, as a dry run, would do.
type LetterReport struct {
	DryRun     bool           `json:"dry_run,omitempty" doc:"Nothing was done: the numbers are what would be"`
	Matched    int            `json:"matched" doc:"Letters that were selected"`
	Replayed   int            `json:"replayed" doc:"Letters whose message is on its stream again"`
	Duplicates int            `json:"duplicates" doc:"Those of them whose message an earlier replay had put there"`
	Kept       int            `json:"kept" doc:"Letters that stay, because their message would be refused again"`
	Reasons    map[string]int `json:"reasons" doc:"Letters that stay, by the code of the rule"`
	Letters    []KeptLetter   `json:"kept_letters" doc:"The first 100 letters that stay"`
	Deleted    int            `json:"deleted" doc:"Letters that are gone"`
	Missing    []string       `json:"missing" doc:"Ids of which there is no letter"`
	NextCursor string         `json:"next_cursor,omitempty" doc:"There is more to do: send the same request again with this as its cursor"`
}

// KeptLetter is a letter that stays, and why.
type KeptLetter struct {
	ID     uint64 `json:"id" example:"7"`
	Origin string `json:"origin,omitempty" example:"EVENTS/91220"`
	Field  string `json:"field,omitempty" doc:"The field that breaks the rule" example:"stage"`
	Code   string `json:"code" doc:"The rule, for programs" example:"stage_unknown"`
	Rule   string `json:"rule" doc:"The rule, for people"`
}

// NewReport returns a report of nothing, to add others to.
func NewReport(dryRun bool) LetterReport {
	return LetterReport{DryRun: dryRun, Reasons: map[string]int{}, Letters: []KeptLetter{}, Missing: []string{}}
}

func (r *LetterReport) keep(l *Letter, why *Invalid) {
	r.Kept++
	r.Reasons[why.Code]++
	if len(r.Letters) < maxKept {
		r.Letters = append(r.Letters, KeptLetter{
			ID: l.ID, Origin: l.Origin, Field: why.Field, Code: why.Code,
			Rule: why.Rule,
		})
	}
}

// Add adds the report of the call that went on where r stopped.
func (r *LetterReport) Add(next LetterReport) {
	r.Matched += next.Matched
	r.Replayed += next.Replayed
	r.Duplicates += next.Duplicates
	r.Kept += next.Kept
	r.Deleted += next.Deleted
	for code, n := range next.Reasons {
		r.Reasons[code] += n
	}
	r.Letters = append(r.Letters, next.Letters[:min(len(next.Letters), maxKept-len(r.Letters))]...)
	r.Missing = append(r.Missing, next.Missing...)
	r.NextCursor = next.NextCursor
}
