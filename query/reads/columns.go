package reads

import (
	"io"
	"reflect"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"
)

// rowGroupBytes is how many bytes of texts a row group has. Until it is written, it is in memory.
const rowGroupBytes = 16 << 20

// columnWriter writes Parquet with the columns of a table as texts.
type columnWriter[Row any] struct {
	out    *parquet.GenericWriter[any]
	texts  func(Row) ([]string, []bool)
	rows   []parquet.Row   // of a page
	values []parquet.Value // of all rows
	bytes  int             // of the row group
}

func newColumnWriter[Row, P any](w io.Writer, t *Table[Row, P]) *columnWriter[Row] {
	fields := make([]parquet.Field, len(t.Columns))
	for i, name := range t.Columns {
		fields[i] = textField{parquet.Optional(parquet.String()), name}
	}
	return &columnWriter[Row]{
		out: parquet.NewGenericWriter[any](w, parquet.NewSchema(t.Name, orderedGroup{fields: fields}),
			parquet.Compression(&zstd.Codec{}), parquet.PageBufferSize(64<<10)),
		texts: t.Texts,
	}
}

func (w *columnWriter[Row]) write(page []Row) error {
	w.rows, w.values = w.rows[:0], w.values[:0]
	for _, row := range page {
		texts, absent := w.texts(row)
		begin := len(w.values)
		for i, text := range texts {
			if absent != nil && absent[i] {
				w.values = append(w.values, parquet.NullValue().Level(0, 0, i))
				continue
			}
			w.values = append(w.values, parquet.ValueOf(text).Level(0, 1, i))
			w.bytes += len(text)
		}
		w.bytes += len(texts)
		w.rows = append(w.rows, w.values[begin:len(w.values):len(w.values)])
	}
	if _, err := w.out.WriteRows(w.rows); err != nil || w.bytes < rowGroupBytes {
		return err
	}
	w.bytes = 0
	return w.out.Flush()
}

func (w *columnWriter[Row]) end() error { return w.out.Close() }

// orderedGroup is a group whose fields keep their order. parquet.Group alone sorts them by name.
type orderedGroup struct {
	parquet.Group
	fields []parquet.Field
}

// Fields implements parquet.Node.
func (g orderedGroup) Fields() []parquet.Field { return g.fields }

// GoType implements parquet.Node. Rows are written as values, and no Go struct is like them.
func (orderedGroup) GoType() reflect.Type { return reflect.TypeFor[struct{}]() }

// textField is a column.
type textField struct {
	parquet.Node
	name string
}

// Name implements parquet.Field.
func (f textField) Name() string { return f.name }

// Value implements parquet.Field.
func (textField) Value(reflect.Value) reflect.Value { return reflect.Value{} }
