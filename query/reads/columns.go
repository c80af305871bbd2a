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
	out   *parquet.GenericWriter[any]
	texts func(Row) ([]*string, error)
	row   parquet.Row
	bytes int // of the row group
}

func newColumnWriter[Row, P any](w io.Writer, t *Table[Row, P]) *columnWriter[Row] {
	fields := make([]parquet.Field, len(t.Columns))
	for i, name := range t.Columns {
		fields[i] = textField{parquet.Optional(parquet.String()), name}
	}
	return &columnWriter[Row]{
		out: parquet.NewGenericWriter[any](w, parquet.NewSchema(t.Name, orderedGroup{fields: fields}),
			parquet.Compression(&zstd.Codec{}), parquet.PageBufferSize(64<<10)),
		texts: t.Texts, row: make(parquet.Row, len(t.Columns)),
	}
}

func (w *columnWriter[Row]) write(page []Row) error {
	for _, row := range page {
		texts, err := w.texts(row)
		if err != nil {
			return err
		}
		for i, text := range texts {
			if text == nil {
				w.row[i] = parquet.NullValue().Level(0, 0, i)
				continue
			}
			w.row[i] = parquet.ByteArrayValue([]byte(*text)).Level(0, 1, i)
			w.bytes += len(*text)
		}
		w.bytes += len(texts)
		if _, err := w.out.WriteRows([]parquet.Row{w.row}); err != nil {
			return err
		}
		if w.bytes >= rowGroupBytes {
			w.bytes = 0
			if err := w.out.Flush(); err != nil {
				return err
			}
		}
	}
	return nil
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
