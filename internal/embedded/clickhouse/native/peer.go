package native

import (
	"encoding/binary"
	"fmt"

	"github.com/ClickHouse/ch-go/proto"
)

// PeerName is what the library calls itself as the client of another server.
const PeerName = "chDB"

// PeerRevision is the revision that is spoken with other servers. Up to it, blocks are laid out on the wire as in a
// file, so that blocks with states of aggregates can be sent on without being understood.
const PeerRevision = OldestRevision

// Packets of servers that talk to each other.
const (
	ClientTablesStatus = 5
	ClientScalar       = 7

	serverTablesStatus = 9
)

// maxPeerTables is how many tables a server can ask about at one time.
const maxPeerTables = 1000

// Peer says that the client is another server: it speaks PeerRevision, and may send what only servers do.
func (r *Reader) Peer() { r.revision, r.peer = PeerRevision, true }

// TableName is the full name of a table.
type TableName struct{ Database, Table string }

// ReadTablesStatus reads the tables that another server asks about, behind the packet's code.
func (r *Reader) ReadTablesStatus() (tables []TableName, err error) {
	n, err := r.uvarint("number of tables", maxPeerTables)
	if err != nil {
		return nil, err
	}
	for range n {
		var t TableName
		if t.Database, err = r.str("database", maxName); err == nil {
			t.Table, err = r.str("table", maxName)
		}
		if err != nil {
			return nil, err
		}
		tables = append(tables, t)
	}
	return tables, nil
}

// TablesStatus says which tables there are. None is replicated, so none lags behind.
func (w *Writer) TablesStatus(tables []TableName) error {
	w.buf.PutUVarInt(serverTablesStatus)
	w.buf.PutUVarInt(uint64(len(tables)))
	for _, t := range tables {
		w.buf.PutString(t.Database)
		w.buf.PutString(t.Table)
		w.buf.PutBool(false)
	}
	return w.send()
}

// FileBlock sends a block as it stands in a file of the Native format. The revision has to be PeerRevision.
func (w *Writer) FileBlock(data []byte, how Compression) error {
	proto.ServerCodeData.Encode(&w.buf)
	w.buf.PutString("")
	if err := w.send(); err != nil {
		return err
	}
	f := &frames{Writer: w, how: how}
	proto.BlockInfo{BucketNum: -1}.Encode(&w.buf)
	if err := f.write(data); err != nil {
		return err
	}
	return f.flush()
}

// FileRows reads how many rows the block has that a file of the Native format begins with.
func FileRows(data []byte) (rows uint64, err error) {
	_, n := binary.Uvarint(data)
	if n <= 0 {
		return 0, fmt.Errorf("read block: %w: it has no number of columns", ErrProtocol)
	}
	rows, m := binary.Uvarint(data[n:])
	if m <= 0 {
		return 0, fmt.Errorf("read block: %w: it has no number of rows", ErrProtocol)
	}
	return rows, nil
}
