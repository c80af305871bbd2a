package event

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
)

// KeyConflict is the code of the rule that the key of an event is not that of
// another one.
const KeyConflict = "key_conflict"

// ConflictRule is that rule, for people.
const ConflictRule = "must not be the key of an event of the same URL from another stage or service"

var errOwnKey = &Invalid{"idempotency_key", KeyConflict, "is another event's, and cannot be changed"}

// GiveOwnKey returns the text of an event, which r was decoded from, with a key
// that is made of its service, its stage and the identity that it has now. All
// other values stay as they are. The same event always gets the same key. R is
// then of the new text; with an error it is of nothing.
func GiveOwnKey(text []byte, r *Record) ([]byte, *Invalid) {
	own := append([]byte(nil), r.ServiceName...)
	own = append(own, 0)
	own = append(own, r.Stage...)
	own = append(own, 0)
	sum := sha256.Sum256(r.AppendMessageID(own))
	var fields map[string]json.RawMessage
	if json.Unmarshal(text, &fields) != nil || fields == nil {
		return nil, errOwnKey
	}
	fields["idempotency_key"] = json.RawMessage(`"own/` + hex.EncodeToString(sum[:16]) + `"`)
	text, err := marshal(fields)
	if err != nil {
		return nil, errOwnKey
	}
	if invalid := Decode(text, r); invalid != nil {
		return nil, invalid
	}
	return text, nil
}
