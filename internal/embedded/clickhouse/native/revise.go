package native

import (
	"bufio"
	"errors"
	"fmt"
	"io"

	"github.com/ClickHouse/ch-go/proto"
)

// Revise copies the blocks of the Native format from src to dst as a server
// writes them to a client of that revision. Columns is called once there is a
// block: it returns the columns with their exact types, if they are known.
func Revise(dst io.Writer, src io.Reader, revision uint64, columns func() []Column) error {
	out := bufio.NewWriterSize(dst, 64<<10)
	c := &copier{Reader: &Reader{Reader: bufio.NewReaderSize(src, 64<<10)}, dst: out, marks: revision >= revisionFlags}
	for {
		if _, err := c.Peek(1); errors.Is(err, io.EOF) {
			return nil
		}
		c.exact = columns()
		var info proto.Buffer
		proto.BlockInfo{BucketNum: -1}.Encode(&info)
		if err := c.write(info.Buf); err != nil {
			return err
		}
		if _, err := c.block(); err != nil {
			return fmt.Errorf("revise result: %w", noEOF(err))
		}
		if err := out.Flush(); err != nil {
			return fmt.Errorf("send result: %w", err)
		}
	}
}
