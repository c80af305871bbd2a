package sources

import (
	"encoding/csv"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/millrace-io/millrace/internal/tabular"
	"github.com/millrace-io/millrace/schemas/job"
	"github.com/millrace-io/millrace/schemas/source"
)

// ListWriter writes a list. Close writes its end.
type ListWriter interface {
	// Write writes a source, and the settings that people have set for its job.
	Write(source.Fields, job.Overrides) error
	Close() error
}

// NewListWriter begins a list. Of a table, jobColumns are those of JobColumns that it has. It panics
// on a format that is none of Formats.
func NewListWriter(format string, w io.Writer, jobColumns []string) (ListWriter, error) {
	switch format {
	case OPML:
		_, err := io.WriteString(w, xml.Header+"<opml version=\"2.0\">\n<head><title>Sources</title></head>\n<body>\n")
		return opmlWriter{w, xml.NewEncoder(w)}, err
	case CSV:
		table := csv.NewWriter(w)
		return csvWriter{table, jobColumns}, table.Write(append(slices.Clone(source.Names), jobColumns...))
	case JSONL:
		lines := json.NewEncoder(w)
		lines.SetEscapeHTML(false)
		return lineWriter{lines}, nil
	}
	panic("exchange: no such format: " + format)
}

type lineWriter struct{ *json.Encoder }

func (w lineWriter) Write(f source.Fields, o job.Overrides) error {
	line := struct {
		source.Fields
		Job *job.Overrides `json:"job,omitempty"`
	}{Fields: f}
	if o != (job.Overrides{}) {
		line.Job = &o
	}
	return w.Encode(line)
}

func (w lineWriter) Close() error { return nil }

type csvWriter struct {
	*csv.Writer
	jobColumns []string
}

func (w csvWriter) Write(f source.Fields, o job.Overrides) error {
	settings, err := overrideTexts(o)
	if err != nil {
		return err
	}
	row := texts(f)
	for _, name := range w.jobColumns {
		row = append(row, settings[name])
	}
	for i, text := range row {
		row[i] = tabular.EscapeCell(text)
	}
	return w.Writer.Write(row)
}

func (w csvWriter) Close() error {
	w.Flush()
	return w.Error()
}

// texts are the fields in their order.
func texts(f source.Fields) []string {
	return []string{
		f.Name, f.URL, strconv.Itoa(f.RateLimit), strconv.Itoa(f.MaxDepth), strconv.FormatBool(f.Enabled),
		string(f.Selectors), f.Priority,
	}
}

type opmlWriter struct {
	w   io.Writer
	enc *xml.Encoder
}

func (w opmlWriter) Write(f source.Fields, o job.Overrides) error {
	settings, err := overrideTexts(o)
	if err != nil {
		return err
	}
	attribute := func(name, value string) xml.Attr { return xml.Attr{Name: xml.Name{Local: name}, Value: value} }
	start := xml.StartElement{Name: xml.Name{Local: "outline"}, Attr: []xml.Attr{
		attribute("type", "rss"), attribute("text", f.Name), attribute("xmlUrl", f.URL),
	}}
	values := texts(f)
	for i, name := range source.Names {
		if name != "name" && name != "url" {
			start.Attr = append(start.Attr, attribute(name, values[i]))
		}
	}
	for _, name := range JobColumns {
		if value, given := settings[name]; given {
			start.Attr = append(start.Attr, attribute(name, value))
		}
	}
	err = w.enc.EncodeToken(start)
	if err == nil {
		err = w.enc.EncodeToken(start.End())
	}
	if err == nil {
		err = w.enc.Flush()
	}
	if err == nil {
		_, err = fmt.Fprintln(w.w)
	}
	return err
}

func (w opmlWriter) Close() error {
	_, err := io.WriteString(w.w, "</body>\n</opml>\n")
	return err
}
