package batches

import (
	"strings"
	"testing"
)

// TestProjectOf has the eleven forms of job names that the specification tells of, and
// below them what is easily taken for one of them.
func TestProjectOf(t *testing.T) {
	for _, c := range []struct{ job, project string }{
		{"proj_xyz-brand-0", "proj_xyz"},                // the brand
		{"proj_xyz-brand-17", "proj_xyz"},               // with another index
		{"proj_xyz-toyota-5", "proj_xyz"},               // a competitor
		{"my-long-project-brand-3", "my-long-project"},  // hyphens in the project
		{"my-long-project-honda-10", "my-long-project"}, // and a competitor
		{"550e8400-e29b-41d4-a716-446655440000", ""},    // a dry run, whose last part is digits
		{"550E8400-E29B-41D4-A716-44665544ABCD", ""},    // in capitals
		{"", ""},                 // nothing
		{"proj_xyz", ""},         // no hyphen
		{"brand-0", ""},          // two parts
		{"proj_xyz-brand-x", ""}, // no index

		{"550e8400-e29b-41d4-a716-446655440000-brand-0", "550e8400-e29b-41d4-a716-446655440000"},
		{"x550e8400-e29b-41d4-a716-446655440000", "x550e8400-e29b-41d4"},
		{"550e8400-e29b-41d4-a716-446655440000\n", ""},
		{"proj_xyz-brand-", ""},
		{"proj_xyz-brand-+1", ""},
		{"proj_xyz-brand-٣", ""}, // digits, and not of ASCII
		{"proj_xyz-brand-²", ""},
		{"proj_xyz--0", "proj_xyz"},
		{"-brand-0", ""},
		{"--0", ""},
		{"a--brand-0", "a-"},
		{"dự-án-brand-0", "dự-án"},
		{"legacy:crawls/a-b-0", ""}, // the name of a batch that has no job
		{"proj_xyz-brand-00000000000000000000", "proj_xyz"},
	} {
		if got := ProjectOf(c.job); got != c.project {
			t.Errorf("%q: project %q, want %q", c.job, got, c.project)
		}
	}
}

// FuzzProjectOf holds against the rule's own words: the project is what stands before
// the last two parts.
func FuzzProjectOf(f *testing.F) {
	for _, job := range []string{"p-brand-0", "550e8400-e29b-41d4-a716-446655440000", "-", "a-b-c-9", "legacy:a-b-1"} {
		f.Add(job)
	}
	f.Fuzz(func(t *testing.T, job string) {
		parts := strings.Split(job, "-")
		want := ""
		if n := len(parts); n >= 3 && isASCIIDigits(parts[n-1]) && !uuidJob.MatchString(job) &&
			!strings.HasPrefix(job, "legacy:") {
			want = strings.Join(parts[:n-2], "-")
		}
		if got := ProjectOf(job); got != want {
			t.Errorf("%q: project %q, want %q", job, got, want)
		}
	})
}

func isASCIIDigits(text string) bool {
	for _, c := range []byte(text) {
		if c < '0' || c > '9' {
			return false
		}
	}
	return text != ""
}
