package exchange

import (
	"encoding/csv"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"strconv"

	"github.com/millrace-io/millrace/internal/csvcell"
	"github.com/millrace-io/millrace/schemas/source"
)

// Writer writes a list. Close writes its end.
type Writer interface {
	Write(source.Fields) error
	Close() error
}

// NewWriter begins a list. It panics on a format that is none of Formats.
func NewWriter(format string, w io.Writer) (Writer, error) {
	switch format {
	case OPML:
		_, err := io.WriteString(w, xml.Header+"<opml version=\"2.0\">\n<head><title>Sources</title></head>\n<body>\n")
		return opmlWriter{w, xml.NewEncoder(w)}, err
	case CSV:
		table := csv.NewWriter(w)
		return csvWriter{table}, table.Write(source.Names)
	case JSONL:
		lines := json.NewEncoder(w)
		lines.SetEscapeHTML(false)
		return lineWriter{lines}, nil
	}
	panic("exchange: no such format: " + format)
}

type lineWriter struct{ *json.Encoder }

func (w lineWriter) Write(f source.Fields) error { return w.Encode(f) }
func (w lineWriter) Close() error                { return nil }

type csvWriter struct{ *csv.Writer }

func (w csvWriter) Write(f source.Fields) error {
	cells := texts(f)
	for i, text := range cells {
		cells[i] = csvcell.Escape(text)
	}
	return w.Writer.Write(cells)
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

func (w opmlWriter) Write(f source.Fields) error {
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
	err := w.enc.EncodeToken(start)
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
