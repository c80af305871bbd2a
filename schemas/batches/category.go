package batches

import "maps"

// Category is what kind of error an item has, and so what is done about it.
type Category string

// Categories of errors.
const (
	RateLimiting Category = "rate_limiting"
	Content      Category = "content"
	Network      Category = "network"
	Parsing      Category = "parsing"
	Media        Category = "media"
	Storage      Category = "storage"
	Generic      Category = "generic"
)

// Categories are all of them, in the order in which they are listed to people.
var Categories = []string{
	string(RateLimiting), string(Content), string(Network), string(Parsing), string(Media), string(Storage), string(Generic),
}

// Codes of errors that Millrace itself gives to items.
const (
	UnknownError = "UNKNOWN_ERROR" // the item is an error and does not say which
	ParseError   = "PARSE_ERROR"   // it could not be read as an item
)

// taxonomy are the codes of each category.
var taxonomy = map[Category][]string{
	RateLimiting: {"RATE_LIMITED", "AUTH_FAILED", "ACCESS_DENIED"},
	Content:      {"CONTENT_REMOVED", "CONTENT_NOT_FOUND", "CONTENT_UNAVAILABLE"},
	Network:      {"NETWORK_ERROR", "TIMEOUT", "CONNECTION_REFUSED", "DNS_ERROR"},
	Parsing:      {ParseError, "INVALID_URL", "INVALID_RESPONSE"},
	Media:        {"MEDIA_DOWNLOAD_FAILED", "MEDIA_TOO_LARGE", "MEDIA_FORMAT_ERROR"},
	Storage:      {"STORAGE_ERROR", "UPLOAD_FAILED", "DATABASE_ERROR"},
	Generic:      {UnknownError, "INTERNAL_ERROR"},
}

var categories = func() map[string]Category {
	of := map[string]Category{}
	for category, codes := range taxonomy {
		for _, code := range codes {
			of[code] = category
		}
	}
	return of
}()

// Codes returns the codes of each category.
func Codes() map[Category][]string { return maps.Clone(taxonomy) }

// CategoryOf returns the category of an error code: Generic if the code is unknown.
func CategoryOf(code string) Category {
	if category, known := categories[code]; known {
		return category
	}
	return Generic
}

// KnownCode tells whether the taxonomy has an error code.
func KnownCode(code string) bool {
	_, known := categories[code]
	return known
}
