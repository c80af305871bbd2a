package main

import (
	"bufio"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"time"
)

// rowSize is how many bytes a row of the file has, with the end of its line.
const rowSize = 600

var rowColumns = []string{"no", "sku", "title", "brand", "price", "ean", "category", "link", "description"}

var rowWords = strings.Fields("chair table lamp shelf sofa walnut oak steel linen wool cotton compact folding modern classic " +
	"outdoor kitchen office garden bedroom adjustable dimmable washable solid light dark grey green blue natural")

// rowCells are the cells of a row, of which the description fills what is left.
func rowCells(no int) []string {
	random := rand.New(rand.NewPCG(uint64(no), 8))
	word := func() string { return rowWords[random.IntN(len(rowWords))] }
	sku := fmt.Sprintf("SKU-%08d", no)
	cells := []string{
		strconv.Itoa(no), sku, word() + " " + word() + " " + word(), "Brand " + strconv.Itoa(random.IntN(400)),
		fmt.Sprintf("%d.%02d", random.IntN(1000), random.IntN(100)), fmt.Sprintf("%013d", random.Int64N(1e13)),
		word() + " > " + word(), "https://shop.example/products/" + sku,
	}
	left := rowSize - len(cells) - 1 // commas, and the end of the line
	for _, cell := range cells {
		left -= len(cell)
	}
	var text strings.Builder
	for text.Len() < left {
		text.WriteString(word() + " ")
	}
	return append(cells, strings.TrimSuffix(text.String()[:left-1], " ")+".")
}

// madeRows are the cells of rows that are written again and again: to make them is no part of what is measured.
func madeRows() [][]string {
	rows := make([][]string, 10_000)
	for i := range rows {
		rows[i] = rowCells(i + 1)
	}
	return rows
}

// rowsText is a file of the first n rows.
func rowsText(n int) io.Reader {
	from, to := io.Pipe()
	go func() { _ = to.CloseWithError(putRows(to, n)) }() // it returns no error
	return from
}

func putRows(to io.Writer, n int) error {
	w := csv.NewWriter(to)
	if err := w.Write(rowColumns); err != nil {
		return err
	}
	for no := range n {
		if err := w.Write(rowCells(no + 1)); err != nil {
			return err
		}
	}
	w.Flush()
	return w.Error()
}

func writeRows(path string, n int) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	w := bufio.NewWriter(f)
	return errors.Join(putRows(w, n), w.Flush(), f.Close())
}

// plainTable has the rows of the file by their numbers.
const plainTable = "bench_rows"

// plainCost is how long all rows took, and microseconds of processor time for each.
type plainCost struct {
	took time.Duration
	cpu  float64
}

// plainCopy copies the file into a new table.
func (u *uploading) plainCopy(ctx context.Context, table string) (p plainCost, err error) {
	conn, err := u.pool.Acquire(ctx)
	if err != nil {
		return p, err
	}
	defer conn.Release()
	columns := "no integer, " + strings.Join(rowColumns[1:], " text, ") + " text"
	if _, err := conn.Exec(ctx, fmt.Sprintf("CREATE TABLE %s (%s)", table, columns)); err != nil {
		return p, fmt.Errorf("make a plain table: %w", err)
	}
	file, err := os.Open(u.file)
	if err != nil {
		return p, err
	}
	defer file.Close()
	watch := newStopwatch()
	tag, err := conn.Conn().PgConn().CopyFrom(ctx, file, "COPY "+table+" FROM STDIN (FORMAT csv, HEADER)")
	p = plainCost{time.Since(watch.begin), watch.stop(u.n).cpu}
	if err == nil && tag.RowsAffected() != int64(u.n) {
		err = fmt.Errorf("%d rows of %d", tag.RowsAffected(), u.n)
	}
	if err != nil {
		return p, fmt.Errorf("copy into a plain table: %w", err)
	}
	if table != plainTable {
		_, err = conn.Exec(ctx, "DROP TABLE "+table)
	} else if _, err = conn.Exec(ctx, "ALTER TABLE "+table+" ADD PRIMARY KEY (no)"); err == nil {
		_, err = conn.Exec(ctx, "VACUUM (ANALYZE) "+table)
	}
	return p, err
}
