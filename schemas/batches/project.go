package batches

import (
	"regexp"
	"strings"
)

var uuidJob = regexp.MustCompile(`^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$`)

// ProjectOf returns the project that a job belongs to. A job is named
// <project>-<brand or competitor>-<index>, and a project may have hyphens. It returns
// an empty text for a dry run, whose job is named by a UUID, and for any other name.
func ProjectOf(job string) string {
	if uuidJob.MatchString(job) || strings.HasPrefix(job, legacyPrefix) {
		return ""
	}
	last := strings.LastIndexByte(job, '-')
	if last < 0 || !isDigits(job[last+1:]) {
		return ""
	}
	return job[:max(strings.LastIndexByte(job[:last], '-'), 0)]
}

// isDigits tells whether a text is a number in ASCII digits: those of other scripts
// are part of a name.
func isDigits(text string) bool {
	return text != "" && strings.Trim(text, "0123456789") == ""
}
