package lint

import (
	"path"
	"regexp"
	"strings"
	"testing"
)

// unclear are phrases that a stranger has to read twice, and what to write.
var unclear = map[string]string{
	`\bone's own\b|\bpeople's own\b`:                     "user-defined",
	`\bbulk acts?\b`:                                     "bulk action",
	`\bin other hands\b`:                                 "another worker holds it",
	`\b(queue|layout|stage|name|token) %[qsv] is none\b`: "invalid %q",
	`\bmore seldom\b`:                                    "less often",
	`\bdear to (compute|tell)\b`:                         "expensive",
	`\bcoming again\b`:                                   "resuming",
	`\bhad (their|its) turn\b`:                           "processed",
	`\bminds (neither|no)\b`:                             "ignores",
	`\bthat which\b`:                                     "what, or the noun itself",
	`\b(group|leader|process|projector|position|view)s? stands? still\b`: "is stalled, or stops",
	`\bsomebody tries again\b`:                                "is retried",
	`\buntil it is looked at\b|\bends when it is looked at\b`: "at the time of the request",
	`\bsay how long what is kept\b`:                           "retention",
	`\bmust not be kept\b`:                                    "must not block",
}

// TestWords holds that comments, messages and documents use the field's words.
func TestWords(t *testing.T) {
	rules := map[*regexp.Regexp]string{}
	for phrase, instead := range unclear {
		rules[regexp.MustCompile("(?i)"+phrase)] = instead
	}
	looked := 0
	for _, name := range files(t, ".go", ".md", ".ts", ".vue") {
		switch base := path.Base(name); {
		case base == "CHANGELOG.md", base == "words_test.go", strings.Contains(name, "/migrations/"):
			continue // what was said then, and this list
		}
		looked++
		for i, line := range strings.Split(read(t, name), "\n") {
			for rule, instead := range rules {
				if found := rule.FindString(line); found != "" {
					t.Errorf("%s:%d: %q: write %q", name, i+1, found, instead)
				}
			}
		}
	}
	if looked < 500 {
		t.Errorf("only %d files were looked at", looked)
	}
}
