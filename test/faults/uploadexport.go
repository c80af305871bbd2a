package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/csv"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/xuri/excelize/v2"
)

// killExporter is a fault of who makes exports.
const killExporter kind = "kill-exporter"

// ofUploadsArea has it.
var ofUploadsArea = area{"Uploads", []entry{
	{killExporter, "kill -9 of the process that makes an export of an upload, while it does"},
}}

// killExporter kills the process that makes exports once it makes one, or after a while.
func (s *saboteur) killExporter() (end func() error, err error) {
	if s.uploads == nil {
		return nil, errors.New("nothing is uploaded")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	for running := 0; running == 0 && ctx.Err() == nil; wait(ctx, 20*time.Millisecond) {
		_ = s.uploads.dsn.read(ctx, "SELECT count(*) FROM millrace.upload_export WHERE state = 'RUNNING' AND rows > 0",
			[]any{&running}, func() error { return nil }) // an error: Postgres is away
	}
	return kill(s.cluster.query), nil
}

// exportFormats are made in turns.
var exportFormats = []string{"csv", "xlsx", "parquet"}

// exportNow is how far an export is.
type exportNow struct {
	ExportID string
	State    string
	SHA256   string  `json:"sha256"`
	Error    *string `json:"last_error"`
}

// export has exports made of the same upload, one after the other, and holds each to its rows.
func (l *uploadLoad) export(ctx, working context.Context) {
	l.upload(working, exportedUpload)
	id := ""
	l.mu.Lock()
	for known, n := range l.acked {
		if n == exportedUpload {
			id = known
		}
	}
	l.mu.Unlock()
	at := "/uploads/" + id
	for state := ""; state != "DONE" && working.Err() == nil; wait(working, 200*time.Millisecond) {
		var now struct {
			State string `json:"queue_state"`
		}
		if l.get(working, at, &now) == nil {
			state = now.State
		}
	}
	for i := 0; ctx.Err() == nil && working.Err() == nil; i++ {
		format := exportFormats[i%len(exportFormats)]
		var made exportNow
		r := l.insist(working, at+"/export?exact=true&format="+format, nil, &made)
		if r.status != http.StatusAccepted {
			if working.Err() == nil {
				l.notes.fail("an export as %s: status %d", format, r.status)
			}
			continue
		}
		l.follow(working, at+"/exports/"+made.ExportID, format)
	}
}

// follow waits until an export has ended, compares its file, and deletes it.
func (l *uploadLoad) follow(ctx context.Context, at, format string) {
	for ; ctx.Err() == nil; wait(ctx, 100*time.Millisecond) {
		var now exportNow
		if l.get(ctx, at, &now) != nil || now.State != "DONE" && now.State != "FAILED" {
			continue
		}
		if now.State == "FAILED" {
			l.notes.fail("the export %s as %s is FAILED: %s", at, format, *now.Error)
			break
		}
		reading, cancel := context.WithTimeout(ctx, time.Minute)
		file, err := fetchOnce(reading, http.MethodGet, "http://"+l.query+"/api/v1"+at+"/file", "")
		cancel()
		if err != nil {
			continue
		}
		if got := fmt.Sprintf("%x", sha256.Sum256(file)); got != now.SHA256 {
			l.notes.fail("the export %s as %s has the digest %s, want %s", at, format, got, now.SHA256)
		}
		if err := sameRows(format, file, planOf(exportedUpload, 0)); err != nil {
			l.notes.fail("the export %s as %s: %v", at, format, err)
		}
		l.mu.Lock()
		l.exports++
		l.mu.Unlock()
		break
	}
	l.demand(ctx, http.MethodDelete, at, nil, nil)
}

// sameRows compares an exported file with the rows of an upload.
func sameRows(format string, file []byte, p uploadPlan) error {
	var rows [][]string
	var err error
	switch format {
	case "csv":
		rows, err = csv.NewReader(bytes.NewReader(file)).ReadAll()
	case "xlsx":
		var book *excelize.File
		if book, err = excelize.OpenReader(bytes.NewReader(file)); err == nil {
			rows, err = book.GetRows("Results")
			err = errors.Join(err, book.Close())
		}
	case "parquet":
		rows, err = parquetRows(file)
	}
	if err != nil {
		return err
	}
	if len(rows) != p.rows+1 || !slices.Equal(rows[0], []string{"upload", "row", "title"}) {
		return fmt.Errorf("it has %d rows, want %d with a header", len(rows), p.rows+1)
	}
	for row := 1; row <= p.rows; row++ {
		if want := []string{strconv.Itoa(p.n), strconv.Itoa(row), uploadCell(row)}; !slices.Equal(rows[row], want) {
			return fmt.Errorf("row %d is %q, want %q", row, rows[row], want)
		}
	}
	return nil
}

// parquetRows reads a file of texts, with the names of its columns as the first row.
func parquetRows(file []byte) (rows [][]string, err error) {
	f, err := parquet.OpenFile(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		return nil, err
	}
	var names []string
	for _, column := range f.Schema().Columns() {
		names = append(names, strings.Join(column, "."))
	}
	rows = append(rows, names)
	for _, group := range f.RowGroups() {
		if rows, err = groupRows(rows, group); err != nil {
			return nil, err
		}
	}
	return rows, nil
}

func groupRows(rows [][]string, group parquet.RowGroup) ([][]string, error) {
	from := group.Rows()
	defer from.Close()
	buffer := make([]parquet.Row, 100)
	for left := group.NumRows(); left > 0; {
		n, err := from.ReadRows(buffer)
		for _, row := range buffer[:n] {
			cells := make([]string, len(row))
			for i, value := range row {
				cells[i] = value.String()
			}
			rows = append(rows, cells)
		}
		if left -= int64(n); err != nil && left > 0 {
			return nil, err
		}
	}
	return rows, nil
}
