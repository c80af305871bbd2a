package main

import (
	"crypto/sha256"
	"fmt"
	"strings"
)

// Queues that are processors of uploads: workers take the items of one, and a webhook gets those of the other. Results of
// copied rows are the rows themselves.
const (
	uploadQueue = "enrich"
	hookedQueue = "enrich-hooked"
	copied      = "copy"
)

// Numbers of uploads that are not as the others.
const (
	largeUpload    = 1_000_000 // with -upload-rows
	exportedUpload = 2_000_000
	watchedUploads = 3_000_000 // and on: files of the watched place
)

// Rows of uploads.
const (
	uploadRows   = 48
	exportedRows = 20_000
)

// uploadPlan is what an upload has, and what becomes of it.
type uploadPlan struct {
	n         int
	rows      int
	processor string
	tus       bool // it is sent by tus, in parts
}

// planOf is that of the nth upload.
func planOf(n, large int) uploadPlan {
	p := uploadPlan{n: n, rows: uploadRows, processor: uploadQueue, tus: n%2 == 1}
	switch {
	case n >= watchedUploads:
		p.processor, p.tus = copied, false
	case n == exportedUpload:
		p.processor, p.rows = copied, exportedRows
	case n == largeUpload:
		p.rows = large
	case n%3 == 0:
		p.processor = hookedQueue
	}
	return p
}

// rowFate is what workers make of a row.
type rowFate int

const (
	rowDone      rowFate = iota
	rowFails             // at the first attempt
	rowThrottled         // at the first attempt
	rowMissing
	rowSkipped
	rowInvalid
	rowCopied
)

// throttledOf is one of how many rows of the large upload meet a shop that is busy.
const throttledOf = 997

// fate is that of a row. A webhook cannot have a row skipped.
func (p uploadPlan) fate(row int) rowFate {
	if p.processor == copied {
		return rowCopied
	}
	if p.n == largeUpload && row%throttledOf == 0 {
		return rowThrottled
	}
	switch kind := (3*p.n + row) % 12; {
	case kind == 1, kind == 2 && p.processor == uploadQueue:
		return rowFails
	case kind == 3 && p.processor == uploadQueue:
		return rowSkipped
	case kind == 4:
		return rowInvalid
	case kind == 5:
		return rowMissing
	}
	return rowDone
}

// status is the one that the row has in the end.
func (f rowFate) status() string {
	switch f {
	case rowMissing:
		return "NOT_FOUND"
	case rowSkipped:
		return "SKIPPED"
	case rowInvalid:
		return "ERROR"
	}
	return "DONE"
}

// result is the one that is stored with the row in the end.
func (p uploadPlan) result(row int) string {
	if fate := p.fate(row); fate == rowCopied || fate.status() != "DONE" {
		return ""
	}
	return fmt.Sprintf(`{"row":%d,"upload":%d}`, row, p.n)
}

// cell is the text of a row, which has line breaks and letters beyond ASCII.
func uploadCell(row int) string { return fmt.Sprintf("Chair,\n“%d”", row) }

// text is the file.
func (p uploadPlan) text() string {
	var text strings.Builder
	text.WriteString("upload,row,title\n")
	for row := 1; row <= p.rows; row++ {
		fmt.Fprintf(&text, "%d,%d,\"%s\"\n", p.n, row, uploadCell(row))
	}
	return text.String()
}

func (p uploadPlan) sha256() [sha256.Size]byte { return sha256.Sum256([]byte(p.text())) }
