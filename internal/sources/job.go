package sources

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/millrace-io/millrace/internal/jobs"
	"github.com/millrace-io/millrace/schemas/job"
	"github.com/millrace-io/millrace/schemas/source"
)

// jobPrefix begins the names of columns and attributes that are settings of the source's job.
const jobPrefix = "job_"

// jobMember is the member of a JSON line that has these settings.
const jobMember = "job"

// JobColumns are the columns and attributes that are settings of the source's job.
var JobColumns = jobColumns()

func jobColumns() (all []string) {
	for _, name := range job.Names {
		all = append(all, jobPrefix+name)
	}
	return all
}

// cutJob takes the settings of the job out of a JSON line; nil: there are none.
func cutJob(line []byte) (rest, settings []byte) {
	members := map[string]json.RawMessage{}
	if !bytes.Contains(line, []byte(`"`+jobMember+`"`)) || json.Unmarshal(line, &members) != nil {
		return line, nil
	}
	settings, given := members[jobMember]
	if !given {
		return line, nil
	}
	delete(members, jobMember)
	rest, err := json.Marshal(members)
	if err != nil { // it was read as JSON
		return line, nil
	}
	return rest, settings
}

// jobTexts writes the settings that cells or attributes give as JSON; nil: they give none.
func jobTexts(values map[string]string) []byte {
	members := map[string]json.RawMessage{}
	for _, name := range job.Names {
		text := values[jobPrefix+name]
		if text == "" {
			continue
		}
		if members[name] = json.RawMessage(text); slices.Contains(job.Texts, name) || !json.Valid(members[name]) {
			members[name], _ = json.Marshal(text) // a string
		}
	}
	if len(members) == 0 {
		return nil
	}
	written, _ := json.Marshal(members) // valid JSON
	return written
}

// readJob reads the settings of a job. The source is refused by the rules that they break.
func readJob(of *source.Draft, prefix string, settings []byte) *job.Draft {
	if settings == nil || string(settings) == "null" {
		return nil
	}
	d := job.ReadDraft(settings)
	jobs.CheckCron(d)
	if d.AutoManaged() != nil {
		d.Refuse("auto_managed", "field_unknown", "must be left out of a list of sources")
	}
	for _, b := range d.Broken() {
		if b.Field == "" {
			b.Field, prefix = jobMember, ""
		}
		of.Refuse(prefix+b.Field, b.Code, b.Rule)
	}
	return d
}

// overrideTexts are settings as cells and attributes, by the names of their columns.
func overrideTexts(o job.Overrides) (map[string]string, error) {
	written, err := json.Marshal(o)
	members := map[string]json.RawMessage{}
	if err == nil {
		err = json.Unmarshal(written, &members)
	}
	texts := make(map[string]string, len(members))
	for name, value := range members {
		text := string(value)
		if slices.Contains(job.Texts, name) {
			if err := json.Unmarshal(value, &text); err != nil {
				return nil, err
			}
		}
		texts[jobPrefix+name] = text
	}
	return texts, err
}
