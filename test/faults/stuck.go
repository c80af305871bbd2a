package main

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// endlessStatement is computed in one block, for hours.
const endlessStatement = "SELECT repeat('a',1000000) LIKE repeat('%a',5000)"

// stuckLimit is by when ClickHouse has ended itself: its statement has a second,
// and it some more to end it.
const stuckLimit = time.Minute

// stick has an analyst send a statement that ClickHouse cannot end, and returns
// when it has ended itself for that. It is started again as it always is.
func (c *cluster) stick() (end func() error, err error) {
	excused := c.clickhouse.excuse()
	end = func() error { excused(); return nil }
	before := c.clickhouse.pid()
	resp, err := (&http.Client{Timeout: stuckLimit}).Post("http://"+c.chHTTP+"/?user=analyst&max_execution_time=1", "", strings.NewReader(endlessStatement))
	if err == nil {
		err = resp.Body.Close()
	}
	for limit := time.Now().Add(stuckLimit); c.clickhouse.pid() == before; {
		if time.Now().After(limit) {
			excused()
			return nil, errors.Join(errors.New("ClickHouse goes on with a statement that does not end"), err)
		}
		time.Sleep(10 * time.Millisecond)
	}
	// The next one may come within the time for which this one is refused.
	err = os.Remove(filepath.Join(c.dir, "clickhouse", "clickhouse", "penalties.json"))
	if errors.Is(err, os.ErrNotExist) {
		err = nil // another fault was faster
	}
	return end, err
}
