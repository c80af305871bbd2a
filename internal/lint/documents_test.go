package lint

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"
)

const root = "../.."

// TestLinks: every relative link of a Markdown file leads to a file, and its
// anchor to a heading.
func TestLinks(t *testing.T) {
	links := 0
	for _, name := range files(t, ".md") {
		for _, target := range linksOf(read(t, name)) {
			links++
			if err := follow(t, name, target); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	if links < 100 {
		t.Errorf("only %d links were found", links)
	}
}

// TestNamedDocuments: where code, settings or texts name a document, there is
// one.
func TestNamedDocuments(t *testing.T) {
	named := 0
	for _, name := range files(t, ".go", ".yml", ".yaml", ".conf", ".sql", ".vue", ".ts") {
		for _, document := range regexp.MustCompile(`\bdocs/[a-z0-9-]+\.md\b`).FindAllString(read(t, name), -1) {
			named++
			if _, err := os.Stat(filepath.Join(root, document)); err != nil {
				t.Errorf("%s names %s: %v", name, document, err)
			}
		}
	}
	if named < 10 {
		t.Errorf("only %d documents are named", named)
	}
}

// TestReadme: the README stays short, and the index has every document.
func TestReadme(t *testing.T) {
	if lines := strings.Count(read(t, "README.md"), "\n"); lines > 150 {
		t.Errorf("README.md has %d lines; 150 are the limit: what is longer belongs into docs", lines)
	}
	listed := map[string]bool{}
	for _, target := range linksOf(read(t, "docs/README.md")) {
		listed[path.Join("docs", target)] = true
	}
	for _, name := range files(t, ".md") {
		if path.Dir(name) == "docs" && name != "docs/README.md" && !listed[name] {
			t.Errorf("docs/README.md does not list %s", name)
		}
	}
}

// TestFollow holds the checker to finding what is wrong.
func TestFollow(t *testing.T) {
	for target, sound := range map[string]bool{
		"docs/README.md": true, "docs/README.md#generated-pages": true, "docs": true, "#publish": true,
		"https://example.com/": true,
		"docs/" + "none.md":    false, "docs/README.md#none": false, "#none": false, "Makefile#none": false,
		"ftp://example.com/": false, "http://": false,
	} {
		if err := follow(t, "README.md", target); (err == nil) != sound {
			t.Errorf("%s: %v", target, err)
		}
	}
	got := linksOf(
		"[a\nb](c.md) ![d](e.png) `[f](g)` <https://example.com/h> [i](j.md \"k\")\n```sh\n[l](m)\n```\n[n]: o.md\n",
	)
	if want := "[c.md e.png j.md https://example.com/h o.md]"; fmt.Sprint(got) != want {
		t.Errorf("the links are %v, want %s", got, want)
	}
	if got := slug("What a `key` may do, and (not): a_b"); got != "what-a-key-may-do-and-not-a_b" {
		t.Errorf("the anchor is %s", got)
	}
}

// follow looks for what a link of a file leads to.
func follow(t *testing.T, from, target string) error {
	t.Helper()
	if strings.Contains(target, ":") {
		if !regexp.MustCompile(`^https?://[^/ ]+`).MatchString(target) {
			return fmt.Errorf("the link %s is no address of the web", target)
		}
		return nil
	}
	file, anchor, _ := strings.Cut(target, "#")
	to := from
	if file != "" {
		to = path.Join(path.Dir(from), file)
	}
	info, err := os.Stat(filepath.Join(root, to))
	switch {
	case err != nil:
		return fmt.Errorf("the link %s leads nowhere: %w", target, err)
	case anchor == "":
		return nil
	case info.IsDir() || !strings.HasSuffix(to, ".md") || !anchors(read(t, to))[anchor]:
		return fmt.Errorf("the link %s: %s has no heading #%s", target, to, anchor)
	}
	return nil
}

var (
	fence    = regexp.MustCompile("(?ms)^```.*?^```$")
	codeSpan = regexp.MustCompile("`[^`\n]*`")
	inline   = regexp.MustCompile(`\]\(([^()\s]+)(?:\s+"[^"]*")?\)`)
	auto     = regexp.MustCompile(`<(https?://[^>\s]+)>`)
	defined  = regexp.MustCompile(`(?m)^\[[^\]]+\]:\s*(\S+)`)
	heading  = regexp.MustCompile(`(?m)^#{1,6} +(.+?) *#*$`)
)

// linksOf lists the targets of a text's links, those in code left out.
func linksOf(text string) (targets []string) {
	text = codeSpan.ReplaceAllString(fence.ReplaceAllString(text, ""), "code")
	for _, form := range []*regexp.Regexp{inline, auto, defined} {
		for _, found := range form.FindAllStringSubmatch(text, -1) {
			targets = append(targets, found[1])
		}
	}
	return targets
}

// anchors are the names by which a text's headings can be linked to.
func anchors(text string) map[string]bool {
	all := map[string]bool{}
	for _, found := range heading.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
		name := slug(found[1])
		for n := 1; all[name]; n++ {
			name = fmt.Sprintf("%s-%d", slug(found[1]), n)
		}
		all[name] = true
	}
	return all
}

// slug makes the name of a heading as code hosts do.
func slug(title string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case unicode.IsLetter(r) || unicode.IsDigit(r) || r == '-' || r == '_':
			return unicode.ToLower(r)
		}
		return -1
	}, inline.ReplaceAllString(title, ""))
}

// files lists the repository's own files that end so.
func files(t *testing.T, endings ...string) (names []string) {
	t.Helper()
	err := filepath.WalkDir(root, func(file string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		if e.IsDir() {
			switch base := e.Name(); {
			case base == "node_modules", base == "dist", base == "data", strings.HasPrefix(base, ".") && name != ".":
				return fs.SkipDir
			}
			return nil
		}
		for _, ending := range endings {
			if strings.HasSuffix(name, ending) {
				names = append(names, filepath.ToSlash(name))
			}
		}
		return nil
	})
	if err != nil || len(names) == 0 {
		t.Fatalf("%d files ending in %v, %v", len(names), endings, err)
	}
	return names
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
