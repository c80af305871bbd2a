package batches

import "testing"

// TestCategories holds the specification's table: 21 codes in 7 categories.
func TestCategories(t *testing.T) {
	if len(taxonomy) != 7 || len(categories) != 21 {
		t.Errorf("%d codes in %d categories, want 21 in 7", len(categories), len(taxonomy))
	}
	for code, want := range map[string]Category{
		"ACCESS_DENIED": RateLimiting, "CONTENT_UNAVAILABLE": Content, "DNS_ERROR": Network, "INVALID_URL": Parsing,
		"MEDIA_TOO_LARGE": Media, "DATABASE_ERROR": Storage, "INTERNAL_ERROR": Generic, "UNKNOWN_ERROR": Generic,
		"rate_limited": Generic, "QUOTA_SPENT": Generic, "": Generic,
	} {
		if got := CategoryOf(code); got != want {
			t.Errorf("%q is %s, want %s", code, got, want)
		}
	}
}
