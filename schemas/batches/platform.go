package batches

import "strings"

// PlatformLabel is a platform as labels of metrics name it: other, unless it is one that is
// known. Whoever may publish could make others without end.
func PlatformLabel(platform string) string {
	switch platform = strings.ToLower(platform); platform {
	case "tiktok", "youtube":
		return platform
	}
	return "other"
}
