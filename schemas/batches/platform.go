package batches

import (
	"slices"
	"strings"
)

// Platforms are the platforms that labels of metrics name.
var Platforms = []string{"tiktok", "youtube", "other"}

// PlatformLabel is a platform as labels of metrics name it: other, unless it is one that is
// known. Whoever may publish could make others without end.
func PlatformLabel(platform string) string {
	if platform = strings.ToLower(platform); slices.Contains(Platforms, platform) {
		return platform
	}
	return "other"
}
