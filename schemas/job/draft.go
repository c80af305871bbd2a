package job

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/millrace-io/millrace/internal/nearest"
	"github.com/millrace-io/millrace/schemas/item"
)

// Invalid says which rule a field breaks.
type Invalid = item.Invalid

// Draft is what somebody says about the settings of a job.
type Draft struct {
	set    Overrides
	given  []string // with those that are null
	auto   *bool
	source uuid.UUID // of a job that is to be made
	broken []Invalid
}

// autoManaged is the member of a draft that switches a job to manual, and back.
const autoManaged = "auto_managed"

// Names are the names of the settings that people may set, in their order.
var Names = names()

// Texts are those of Names whose values are strings.
var Texts = texts()

func texts() (all []string) {
	for f := range reflect.TypeFor[Overrides]().Fields() {
		if f.Type == reflect.TypeFor[*string]() {
			all = append(all, Names[f.Index[0]])
		}
	}
	return all
}

func names() (all []string) {
	for f := range reflect.TypeFor[Overrides]().Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		all = append(all, name)
	}
	return all
}

// ReadDraft reads a JSON object of settings: null is back to what is computed.
func ReadDraft(text []byte) *Draft { return readDraft(text, autoManaged) }

// readDraft reads settings, and one member that is none.
func readDraft(text []byte, other string) *Draft {
	d := new(Draft)
	given := map[string]json.RawMessage{}
	if err := json.Unmarshal(text, &given); err != nil || given == nil {
		d.breaks("", "json", "must be one JSON object")
		return d
	}
	known := append(slices.Clone(Names), other)
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if !slices.Contains(known, name) {
			near, _ := nearest.Name(name, known)
			d.breaks(name, "field_unknown", fmt.Sprintf("is no setting of a job: the nearest is %s, of %s", near,
				strings.Join(known, ", ")))
		}
	}
	if other == sourceID {
		d.readSource(given[sourceID])
	}
	if value, ok := given[autoManaged]; ok && other == autoManaged {
		d.auto = new(bool)
		if isNull(value) || json.Unmarshal(value, d.auto) != nil {
			d.breaks(autoManaged, "type", "must be true or false")
		}
	}
	for i, name := range Names {
		if value, ok := given[name]; ok {
			d.given = append(d.given, name)
			if !isNull(value) {
				d.setting(i, name, value)
			}
		}
	}
	if d.set.IntervalMinutes != nil && d.set.Cron != nil {
		d.breaks("cron", "conflict", "must not be given together with interval_minutes")
	}
	return d
}

func isNull(value json.RawMessage) bool { return string(value) == "null" }

func (d *Draft) breaks(field, code, rule string) {
	d.broken = append(d.broken, Invalid{Field: field, Code: code, Rule: rule})
}

// setting reads the field of Overrides with a number.
func (d *Draft) setting(number int, name string, value json.RawMessage) {
	tag := reflect.TypeFor[Overrides]().Field(number).Tag
	into := reflect.ValueOf(&d.set).Elem().Field(number)
	switch into.Interface().(type) {
	case *int:
		n, ok := d.whole(name, value, tag)
		if ok {
			into.Set(reflect.ValueOf(&n))
		}
	case *string:
		var text string
		if json.Unmarshal(value, &text) != nil {
			d.breaks(name, "type", "must be a string")
			return
		}
		if choice := tag.Get("enum"); choice != "" && !slices.Contains(strings.Split(choice, ","), text) {
			d.breaks(name, name+"_unknown", "must be one of "+strings.ReplaceAll(choice, ",", ", "))
		}
		if name == "time_zone" {
			d.zone(name, text)
		}
		into.Set(reflect.ValueOf(&text))
	case *CrawlWindow:
		d.window(value)
	}
}

// whole reads a whole number within the bounds of a tag.
func (d *Draft) whole(name string, value json.RawMessage, tag reflect.StructTag) (n int, ok bool) {
	least, _ := strconv.Atoi(tag.Get("minimum"))
	most, _ := strconv.Atoi(tag.Get("maximum"))
	return d.within(name, value, least, most)
}

func (d *Draft) within(name string, value json.RawMessage, least, most int) (n int, ok bool) {
	err := json.Unmarshal(value, &n)
	var kind *json.UnmarshalTypeError
	large := errors.As(err, &kind) && strings.HasPrefix(kind.Value, "number ") && !bytes.ContainsAny(value, ".eE")
	switch {
	case err != nil && !large || isNull(value):
		d.breaks(name, "type", "must be a whole number")
	case large || n < least || n > most:
		d.breaks(name, "range", fmt.Sprintf("must be from %d to %d", least, most))
	default:
		return n, true
	}
	return 0, false
}

// zone holds that a name is that of a time zone.
func (d *Draft) zone(field, name string) {
	if _, err := time.LoadLocation(name); err != nil || name == "" || name == "Local" {
		d.breaks(field, "time_zone", "must be a time zone such as UTC or Europe/Berlin")
	}
}

// windowNames are the fields of a crawl window; the first two are required.
var windowNames = []string{"start_hour", "end_hour", "days", "time_zone"}

func (d *Draft) window(value json.RawMessage) {
	given := map[string]json.RawMessage{}
	if json.Unmarshal(value, &given) != nil {
		d.breaks("crawl_window", "type", "must be an object with start_hour, end_hour, days and time_zone")
		return
	}
	got := &CrawlWindow{Days: []int{}, TimeZone: "UTC"}
	for i, name := range windowNames {
		switch value, ok := given[name]; {
		case ok:
			d.windowField(got, name, value)
		case i < 2:
			d.breaks("crawl_window."+name, "missing", "is required")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if !slices.Contains(windowNames, name) {
			near, _ := nearest.Name(name, windowNames)
			d.breaks("crawl_window."+name, "field_unknown", fmt.Sprintf(
				"is no field of a crawl window: the nearest is %s, of %s", near, strings.Join(windowNames, ", ")))
		}
	}
	d.set.CrawlWindow = got
}

func (d *Draft) windowField(w *CrawlWindow, name string, value json.RawMessage) {
	field := "crawl_window." + name
	switch name {
	case "start_hour":
		w.StartHour, _ = d.within(field, value, 0, 23)
	case "end_hour":
		w.EndHour, _ = d.within(field, value, 0, 23)
	case "days":
		d.days(w, field, value)
	case "time_zone":
		if isNull(value) || json.Unmarshal(value, &w.TimeZone) != nil {
			d.breaks(field, "type", "must be a string")
			return
		}
		d.zone(field, w.TimeZone)
	}
}

func (d *Draft) days(w *CrawlWindow, field string, value json.RawMessage) {
	var days []json.RawMessage
	if isNull(value) || json.Unmarshal(value, &days) != nil {
		d.breaks(field, "type", "must be a list of days, such as mon, or of numbers from 0, which is Sunday, to 6")
		return
	}
	for i, day := range days {
		n, ok := d.day(fmt.Sprintf("%s[%d]", field, i), day)
		if ok && !slices.Contains(w.Days, n) {
			w.Days = append(w.Days, n)
		}
	}
	slices.Sort(w.Days)
}

// day reads a day of the week: a number, or a name in full or by its first three letters.
func (d *Draft) day(field string, value json.RawMessage) (n int, ok bool) {
	var name string
	if isNull(value) || json.Unmarshal(value, &name) != nil {
		return d.within(field, value, 0, 6)
	}
	name = strings.ToLower(name)
	for day := time.Sunday; day <= time.Saturday; day++ {
		if full := strings.ToLower(day.String()); name == full || name == full[:3] {
			return int(day), true
		}
	}
	d.breaks(field, "day_unknown", "must be sun, mon, tue, wed, thu, fri or sat, or a number from 0, which is Sunday, to 6")
	return 0, false
}

// MarshalJSON implements json.Marshaler: ReadDraft reads the settings again. The draft must break
// no rule.
func (d *Draft) MarshalJSON() ([]byte, error) {
	members, values := map[string]any{}, reflect.ValueOf(d.set)
	for i, name := range Names {
		if slices.Contains(d.given, name) {
			members[name] = values.Field(i).Interface()
		}
	}
	if d.auto != nil {
		members[autoManaged] = *d.auto
	}
	return json.Marshal(members)
}

// Refuse notes a rule that the draft breaks in a way that its reader has found.
func (d *Draft) Refuse(field, code, rule string) { d.breaks(field, code, rule) }

// Broken returns the rules that the draft breaks.
func (d *Draft) Broken() []Invalid { return d.broken }

// Cron is the cron expression that the draft gives, and its zone; nil: it gives none.
func (d *Draft) Cron() (expression, zone *string) { return d.set.Cron, d.set.TimeZone }

// AutoManaged says whether the job is to follow its source; nil: it is not said.
func (d *Draft) AutoManaged() *bool { return d.auto }

// Over returns what people have set, after the draft. It must break no rule. Of
// interval_minutes and cron, the one that is set takes the other's place.
func (d *Draft) Over(was Overrides) Overrides {
	from, into := reflect.ValueOf(d.set), reflect.ValueOf(&was).Elem()
	for i, name := range Names {
		if slices.Contains(d.given, name) {
			into.Field(i).Set(from.Field(i))
		}
	}
	switch {
	case d.set.IntervalMinutes != nil:
		was.Cron = nil
	case d.set.Cron != nil:
		was.IntervalMinutes = nil
	}
	if was.Cron == nil {
		was.TimeZone = nil
	}
	return was
}
