package clickhouse

import (
	"cmp"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/millrace-io/millrace/internal/embedded/clickhouse/native"
)

// tableFields are what is said about an external table t, as in t_format.
var tableFields = words("format structure types")

// form is a body of multipart/form-data. Its fields are the statement, values of
// parameters, and what is said about external tables; its files are their rows.
type form struct {
	*request
	values url.Values // of the address, which may describe tables, too
	most   int64      // bytes of all fields
	engine *engine    // that keeps the files; nil where there can be none

	fields map[string]string
}

// formBoundary separates the parts of a form; it is empty for any other body.
func formBoundary(r *http.Request) (string, error) {
	if !strings.HasPrefix(r.Header.Get("Content-Type"), "multipart/form-data") {
		return "", nil
	}
	_, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || params["boundary"] == "" {
		return "", exception(codeIncorrectData, "INCORRECT_DATA",
			"A body of multipart/form-data needs a boundary in its Content-Type")
	}
	return params["boundary"], nil
}

// read reads the form and returns the statement's text.
func (f *form) read(body io.Reader, boundary string) (text string, err error) {
	limited := &io.LimitedReader{R: body, N: f.most}
	if f.engine == nil {
		body = limited // nothing of it can be data
	}
	f.fields = map[string]string{}
	parts := multipart.NewReader(body, boundary)
	for {
		part, err := parts.NextPart()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			err = bodyError(err)
		} else {
			err = f.part(part)
		}
		if err != nil && limited.N <= 0 {
			return "", f.tooLarge()
		}
		if err != nil {
			return "", err
		}
	}
	for _, table := range f.tables {
		if err := f.describe(table); err != nil {
			return "", err
		}
	}
	return strings.TrimPrefix(f.values.Get("query")+"\n"+f.fields["query"], "\n"), nil
}

func (f *form) tooLarge() error {
	return exception(codeTooLarge, "QUERY_IS_TOO_LARGE", "The query and its parameters are larger than %d bytes",
		f.most)
}

func (f *form) part(part *multipart.Part) error {
	name := part.FormName()
	_, disposition, _ := mime.ParseMediaType(part.Header.Get("Content-Disposition"))
	if _, file := disposition["filename"]; file {
		return f.file(name, part)
	}
	value, err := io.ReadAll(io.LimitReader(part, f.most+1))
	if err != nil {
		return bodyError(err)
	}
	if f.most -= int64(len(value)); f.most < 0 {
		return f.tooLarge()
	}
	if param, ok := strings.CutPrefix(name, "param_"); ok {
		f.param(param, string(value))
		return nil
	}
	if _, twice := f.fields[name]; twice {
		return exception(codeBadArguments, "BAD_ARGUMENTS", "The form has the field %q twice", name)
	}
	if at := strings.LastIndexByte(name, '_'); name != "query" && !tableFields[name[at+1:]] {
		return exception(codeBadArguments, "BAD_ARGUMENTS",
			"The form has the unknown field %q: it can have query, param_…, and files as external tables; settings "+
				"go into the address", name)
	}
	f.fields[name] = string(value)
	return nil
}

// file keeps the rows of an external table.
func (f *form) file(name string, rows io.Reader) error {
	switch {
	case f.engine == nil:
		return exception(codeNotImplemented, "NOT_IMPLEMENTED",
			"External tables are not supported for analysts: %q is one", name)
	case name == "":
		return exception(codeBadArguments, "BAD_ARGUMENTS", "The form has a file without a name")
	}
	table, err := f.tables.add(name, f.engine)
	if err != nil {
		return err
	}
	if _, err := io.Copy(table.rows, rows); err != nil {
		return bodyError(err)
	}
	return nil
}

// describe finds what is said about a table, in the address or in the form.
func (f *form) describe(t *external) (err error) {
	said := func(about string) string { return cmp.Or(f.values.Get(t.name+"_"+about), f.fields[t.name+"_"+about]) }
	t.format = cmp.Or(said("format"), "TabSeparated")
	if !identifier.MatchString(t.format) {
		return exception(codeUnknownFormat, "UNKNOWN_FORMAT", "Unknown format %s", t.format)
	}
	if t.structure = said("structure"); t.structure != "" {
		return nil
	}
	types, err := native.SplitTypes(said("types"))
	if err != nil || len(types) == 0 {
		return exception(codeBadArguments, "BAD_ARGUMENTS",
			"Neither the structure nor the types of the external table %[1]s are given, as %[1]s_structure or "+
				"%[1]s_types", t.name)
	}
	for i, kind := range types {
		types[i] = "_" + strconv.Itoa(i+1) + " " + kind
	}
	t.structure = strings.Join(types, ", ")
	return nil
}
