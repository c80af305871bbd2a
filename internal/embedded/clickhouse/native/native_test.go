package native_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/ClickHouse/ch-go/compress"
	"github.com/ClickHouse/ch-go/proto"

	"github.com/millrace-io/millrace/internal/embedded/clickhouse/native"
)

// sample is a block as ch-go encodes it, and what it is in a file.
func sample(t testing.TB, rows int) (wire, file []byte) {
	t.Helper()
	var (
		str   proto.ColStr
		num   proto.ColUInt64
		low   = new(proto.ColStr).LowCardinality()
		array = new(proto.ColStr).Array()
		null  = new(proto.ColUInt8).Nullable()
		at    = new(proto.ColDateTime64).WithPrecision(9).WithLocation(time.UTC)
		kv    = proto.NewMap(new(proto.ColStr), new(proto.ColUInt8))
	)
	for i := range rows {
		str.Append(string(bytes.Repeat([]byte("x"), i%300)))
		num.Append(uint64(i))
		low.Append([]string{"a", "b", "c"}[i%3])
		array.Append([]string{"p", "q"}[:i%3%2])
		null.Append(proto.NewNullable(uint8(i)))
		at.Append(time.Unix(int64(i), 0))
		kv.Append(map[string]uint8{"k": 1})
	}
	input := proto.Input{
		{Name: "str", Data: &str},
		{Name: "num", Data: &num},
		{Name: "low", Data: low},
		{Name: "array", Data: array},
		{Name: "null", Data: null},
		{Name: "at", Data: at},
		{Name: "kv", Data: kv},
	}
	var b, old, info proto.Buffer
	block := proto.Block{Info: proto.BlockInfo{BucketNum: -1}, Columns: len(input), Rows: rows}
	if err := block.EncodeBlock(&b, native.Revision, input); err != nil {
		t.Fatal(err)
	}
	if err := block.EncodeBlock(&old, native.OldestRevision, input); err != nil {
		t.Fatal(err)
	}
	block.Info.Encode(&info)
	return b.Buf, old.Buf[len(info.Buf):]
}

func TestCopyBlock(t *testing.T) {
	for _, rows := range []int{0, 1, 5, 70_000} {
		wire, file := sample(t, rows)
		in := native.NewReader(bytes.NewReader(append(wire, "next"...)))
		var out bytes.Buffer
		size, err := in.CopyBlock(&out)
		if err != nil || size.Columns != 7 || size.Rows != uint64(rows) {
			t.Fatalf("%d rows: %+v, %v", rows, size, err)
		}
		if !bytes.Equal(out.Bytes(), file) {
			t.Errorf("%d rows: %d bytes, want %d", rows, out.Len(), len(file))
		}
		if rest, _ := io.ReadAll(in); string(rest) != "next" {
			t.Errorf("%d rows: %q is left", rows, rest)
		}
		blocks, err := native.Split(append(file, file...))
		if err != nil || len(blocks) != 2 || blocks[1].Rows != uint64(rows) || len(blocks[1].Columns) != 7 {
			t.Fatalf("%d rows: %d blocks, %v", rows, len(blocks), err)
		}
		if got := sent(t, blocks[1]); !bytes.Equal(got, append([]byte{native.ClientQuery, 0}, wire...)) {
			t.Errorf("%d rows: %d bytes are sent, want %d", rows, len(got), len(wire)+2)
		}
	}
}

// A block may come in many frames.
func TestBlocksCompressed(t *testing.T) {
	wire, file := sample(t, 5000)
	for _, frame := range []int{100, 7000, 1 << 20} {
		var in bytes.Buffer
		in.WriteByte(0) // the table's name
		w := compress.NewWriter(compress.LevelZero, compress.LZ4)
		for part := wire; len(part) > 0; part = part[min(frame, len(part)):] {
			if err := w.Compress(part[:min(frame, len(part))]); err != nil {
				t.Fatal(err)
			}
			in.Write(w.Data)
		}
		var out bytes.Buffer
		blocks := native.NewBlocks(native.NewReader(&in), true)
		if table, err := blocks.Table(); table != "" || err != nil {
			t.Fatal(table, err)
		}
		size, err := blocks.Copy(&out)
		if err != nil || size.Rows != 5000 || !bytes.Equal(out.Bytes(), file) {
			t.Errorf("frames of %d: %+v, %v", frame, size, err)
		}
	}
}

// sent is a block as it is sent, its packet's code and table in front.
func sent(t *testing.T, b native.Block) []byte {
	t.Helper()
	var out bytes.Buffer
	w := native.NewWriter(&out)
	if err := errors.Join(w.Block(native.Rows, b, native.Plain), w.Flush()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestTruncatedBlock(t *testing.T) {
	wire, _ := sample(t, 20)
	for n := range wire {
		if _, err := native.NewReader(bytes.NewReader(wire[:n])).CopyBlock(io.Discard); err == nil {
			t.Fatalf("%d of %d bytes are taken for a block", n, len(wire))
		}
	}
}

func TestUnknownTypes(t *testing.T) {
	for _, name := range []string{
		"Nonsense", "AggregateFunction(uniq, String)", "Array()", "Array(", "FixedString(0)",
		"JSON(a Nonsense)", "Variant(Nonsense)", "Tuple()",
	} {
		wire := sent(t, native.Block{Columns: []native.Column{{Name: "c", Type: name}}})[2:]
		if _, err := native.NewReader(bytes.NewReader(wire)).CopyBlock(io.Discard); !errors.Is(err, native.ErrType) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// queryPacket is a query as ch-go sends it, without its code.
func queryPacket(text string, settings ...proto.Setting) []byte {
	var b proto.Buffer
	proto.Query{
		ID: "1", Body: text, Stage: proto.StageComplete, Settings: settings,
		Info: proto.ClientInfo{
			ProtocolVersion: native.Revision, Interface: proto.InterfaceTCP,
			Query: proto.ClientQueryInitial,
		},
	}.EncodeAware(&b, native.Revision)
	return b.Buf[1:]
}

// TestQuerySize: a query's text and settings share one limit.
func TestQuerySize(t *testing.T) {
	two := []proto.Setting{{Key: "a", Value: "1234"}, {Key: "b", Value: "1234"}} // 10 bytes
	for _, c := range []struct {
		text     string
		settings []proto.Setting
		fits     bool
	}{
		{strings.Repeat("x", 15), nil, true},
		{strings.Repeat("x", 16), nil, false},
		{"12345", two, true},
		{"123456", two, false},
		{"", append(two, proto.Setting{Key: "c", Value: "12345"}), false},
	} {
		in := native.NewReader(bytes.NewReader(queryPacket(c.text, c.settings...)))
		q, err := in.ReadQuery(15)
		if c.fits && (err != nil || q.Text != c.text || len(q.Settings) != len(c.settings)) {
			t.Errorf("%q, %d settings: %+v, %v", c.text, len(c.settings), q, err)
		}
		if !c.fits && !errors.Is(err, native.ErrProtocol) {
			t.Errorf("%q, %d settings: %v", c.text, len(c.settings), err)
		}
	}
}

// TestSkipEmpty: the block that is passed over has to be the empty one, and one
// that is larger is refused by what it announces, before it comes.
func TestSkipEmpty(t *testing.T) {
	var blank proto.Buffer
	if err := (proto.Block{Info: proto.BlockInfo{BucketNum: -1}}).EncodeBlock(&blank, native.Revision,
		nil); err != nil {
		t.Fatal(err)
	}
	frame := func(method compress.Method, data []byte) []byte {
		w := compress.NewWriter(compress.LevelZero, method)
		if err := w.Compress(data); err != nil {
			t.Fatal(err)
		}
		return append([]byte{0}, w.Data...) // behind the table's name
	}
	huge := frame(compress.LZ4, blank.Buf)[:1+16+9]
	binary.LittleEndian.PutUint32(huge[1+16+1:], 100<<20)
	full, _ := sample(t, 3)
	for _, c := range []struct {
		name       string
		sent       []byte
		compressed bool
		want       error
	}{
		{"empty", append([]byte{0}, blank.Buf...), false, nil},
		{"empty, without compression in its frame", frame(compress.None, blank.Buf), true, nil},
		{"empty, LZ4", frame(compress.LZ4, blank.Buf), true, nil},
		{"empty, ZSTD", frame(compress.ZSTD, blank.Buf), true, nil},
		{"a block", append([]byte{0}, full...), false, native.ErrProtocol},
		{"the head of a large frame", huge, true, native.ErrProtocol},
		{"half a head", huge[:10], true, io.ErrUnexpectedEOF},
		{"an external table", append([]byte{1, 't'}, blank.Buf...), false, native.ErrProtocol},
	} {
		in := native.NewReader(io.MultiReader(bytes.NewReader(c.sent), strings.NewReader("next")))
		if c.want == io.ErrUnexpectedEOF {
			in = native.NewReader(bytes.NewReader(c.sent))
		}
		err := in.SkipEmpty(c.compressed)
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
		if c.want != nil {
			continue
		}
		if rest, _ := io.ReadAll(in); string(rest) != "next" {
			t.Errorf("%s: %q is left", c.name, rest)
		}
	}
}

func FuzzPackets(f *testing.F) {
	var hello proto.Buffer
	proto.ClientHello{
		Name: "test", ProtocolVersion: native.Revision, Database: "d", User: "u",
		Password: "p",
	}.Encode(&hello)
	wire, _ := sample(f, 3)
	f.Add(hello.Buf)
	f.Add(queryPacket("SELECT 1", proto.Setting{Key: "a", Value: "b"}))
	f.Add(wire)
	f.Fuzz(func(t *testing.T, data []byte) {
		_, _ = native.NewReader(bytes.NewReader(data)).ReadHello()
		_, _ = native.NewReader(bytes.NewReader(data)).ReadQuery(1 << 20)
		peer := native.NewReader(bytes.NewReader(data))
		peer.Peer()
		_, _ = peer.ReadQuery(1 << 20)
		_, _ = native.NewReader(bytes.NewReader(data)).ReadTablesStatus()
		_, _ = native.FileRows(data)
		_ = native.NewReader(bytes.NewReader(data)).SkipEmpty(true)
		_ = native.NewReader(bytes.NewReader(data)).SkipEmpty(false)
		_, _ = native.NewBlocks(native.NewReader(bytes.NewReader(data)), true).Copy(io.Discard)
		var out bytes.Buffer
		size, err := native.NewReader(bytes.NewReader(data)).CopyBlock(&out)
		if err == nil && size.Columns > 0 {
			if blocks, err := native.Split(out.Bytes()); err != nil || len(blocks) != 1 {
				t.Errorf("a copied block of %d bytes is read as %d blocks: %v", out.Len(), len(blocks), err)
			}
		}
	})
}
