package main

import (
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"
)

type outcome string

const (
	harmless outcome = "harmless"
	named    outcome = "named"
	misnamed outcome = "misnamed"
	silent   outcome = "silent"
	fills    outcome = "fills memory"
)

// result is what came of a trial.
type result struct {
	seed    uint64
	variant string
	file    string
	way     string
	outcome outcome
	wrong   map[string]string
	said    []string
}

// judge compares what is wrong with what was said.
func (r *result) judge(store string, wrong map[string]string, said []string) {
	r.wrong, r.said = wrong, said
	text := strings.Join(said, "\n")
	switch {
	case len(wrong) == 0 && len(said) == 0:
		r.outcome = harmless
	case len(said) == 0:
		r.outcome = silent
	case !names(text, store):
		r.outcome = misnamed
	default:
		r.outcome = named
		for store := range wrong {
			if !names(text, store) {
				r.outcome = silent
			}
		}
	}
}

// names tells whether a text names a store, as a word.
func names(text, store string) bool {
	return regexp.MustCompile(`(^|[^A-Za-z_])` + regexp.QuoteMeta(store) + `($|[^A-Za-z_])`).MatchString(text)
}

func (r result) String() string {
	text := fmt.Sprintf("seed %d: %s: %s %s: %s", r.seed, r.outcome, r.variant, r.file, r.way)
	for _, store := range slices.Sorted(maps.Keys(r.wrong)) {
		text += "\n  wrong: " + r.wrong[store]
	}
	for _, said := range r.said {
		text += fmt.Sprintf("\n  said: %.300s", said)
	}
	return text
}

var (
	number = regexp.MustCompile(`[0-9]+`)
	folder = regexp.MustCompile(`^.*/`)
)

// kind is what files a file is like.
func (r result) kind() string {
	name := number.ReplaceAllString(filepath.ToSlash(r.file), "N")
	for _, stream := range []string{"obs/"} {
		if i := strings.Index(name, stream); i >= 0 {
			return strings.Fields(r.variant)[0] + " consumer " + filepath.Base(name)
		}
	}
	return strings.Fields(r.variant)[0] + " " + folder.ReplaceAllString(name, "")
}

// table counts outcomes by kind of file.
type table struct {
	counts map[string]map[outcome]int
	seeds  map[outcome][]uint64
}

func newTable() *table {
	return &table{map[string]map[outcome]int{}, map[outcome][]uint64{}}
}

func (t *table) add(r result) {
	for _, kind := range []string{r.kind(), "~all"} {
		if t.counts[kind] == nil {
			t.counts[kind] = map[outcome]int{}
		}
		t.counts[kind][r.outcome]++
	}
	t.seeds[r.outcome] = append(t.seeds[r.outcome], r.seed)
}

func (t *table) count(o outcome) int { return len(t.seeds[o]) }

func (t *table) print(w io.Writer) {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(tw, "file\tharmless\tnamed\tmisnamed\tsilent\tfills memory\t")
	for _, kind := range slices.Sorted(maps.Keys(t.counts)) {
		n := t.counts[kind]
		fmt.Fprintf(tw, "%s\t%d\t%d\t%d\t%d\t%d\t\n", strings.TrimPrefix(kind, "~"),
			n[harmless], n[named], n[misnamed], n[silent], n[fills])
	}
	_ = tw.Flush()
	all := t.counts["~all"]
	total := all[harmless] + all[named] + all[misnamed] + all[silent] + all[fills]
	fmt.Fprintf(w, "silent: %d of %d (%.2f %%)\n", all[silent], total, 100*float64(all[silent])/float64(max(total, 1)))
	for _, o := range []outcome{silent, misnamed, fills} {
		if len(t.seeds[o]) > 0 {
			fmt.Fprintf(w, "seeds of %s trials: %v\n", o, t.seeds[o])
		}
	}
}
