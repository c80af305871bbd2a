package clickhouse

import "strings"

// Expressions over rows of the table events that say what package event says of
// an event. The column identity is not enough: rows of releases in which
// channels had no identities of their own have another one there.
var identities = strings.NewReplacer(
	"@identity", "if(channel != '' AND idempotency_key IN ('', "+specifiedKey+"), "+computedIdentity+", identity)",
	"@fingerprint", `greatest(1, reinterpretAsUInt64(substring(SHA256(concat(stage, '\0', service_name)), 1, 8)))`,
	"@specified_key", specifiedKey,
	"@computed_identity", computedIdentity,
)

const (
	keyHead = "service_name, ':', stage, ':', lower(hex(substring(article_hash, 1, 4))), ':', " +
		"if(is_reclassification AND model_version != '', concat(model_version, ':'), '')"
	keyChannel = "if(channel = '', '', concat(replaceAll(replaceAll(channel, '%', '%25'), ':', '%3A'), '@'))"
	keyTime    = "formatDateTime(occurred_at, '%Y-%m-%dT%H:%i:%S', 'UTC'), trim(TRAILING '.' FROM trim(TRAILING " +
		"'0' FROM " +
		"concat('.', leftPad(toString(toUnixTimestamp64Nano(occurred_at) % 1000000000), 9, '0')))), 'Z'"

	// specifiedKey is the key that the specification computes, without a channel.
	specifiedKey = "concat(" + keyHead + ", " + keyTime + ")"
	// computedIdentity is the identity that goes with the computed key.
	computedIdentity = "toFixedString(substring(SHA256(concat(" + keyHead + ", " + keyChannel + ", " + keyTime +
		", '/', lower(hex(article_hash)))), 1, 16), 16)"
)

// WithIdentities puts expressions into a query of the table events: @identity
// and @fingerprint of the event, @specified_key and @computed_identity.
func WithIdentities(query string) string { return identities.Replace(query) }
