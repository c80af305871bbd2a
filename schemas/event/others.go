package event

// Fields are the names of an event's fields.
var Fields = []string{
	"article_url", "canonical_url", "content_url", "idempotency_key", "metadata", "metadata_schema_version",
	"occurred_at", "service_name", "source_name", "stage", "trace_id",
}

// maxOthers bounds how many keys that are no fields are told.
const maxOthers = 20

func (d *decoder) other(key []byte) {
	if len(d.others) < maxOthers {
		d.others = append(d.others, key)
	}
}

// Others returns the keys of a decoded event that are not fields of events, the first 20.
// They are valid as long as the Record.
func (r *Record) Others() [][]byte {
	if len(r.faults) > 0 && r.faults[0].Field == "" { // it could not be read
		return nil
	}
	return r.decoder.others
}

// OtherMembers returns the keys of a JSON object beside one, the first 20. Of text that is
// no object it returns those before what is wrong.
func OtherMembers(text []byte, but string) (others []string) {
	d := decoder{scanner: scanner{data: text}}
	d.object(func(d *decoder, key []byte) bool {
		if string(key) != but {
			d.other(key)
		}
		return d.skip(0)
	})
	for _, key := range d.others {
		others = append(others, string(key))
	}
	return others
}
