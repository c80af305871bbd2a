package main

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"
	"github.com/xuri/excelize/v2"
)

// mostGrowth is by how many MB a process may grow while it makes an export.
const mostGrowth = 100

// exporting measures exports of all rows by a process of the role query, and its memory.
func (u *uploading) exporting(ctx context.Context, of sent) (err error) {
	q, err := u.queryRole(ctx, u.m, "AUTH_JWT_SECRET="+uploadSecret)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, q.close()) }()
	small, err := u.send(ctx, u.user, "copy", rowsText(1000))
	if err != nil {
		return err
	}
	if _, err := u.await(ctx, u.user, small.id, 20*time.Millisecond, done); err != nil {
		return err
	}
	for _, format := range []struct {
		name, peer string
		plain      func(context.Context) error
	}{
		{"xlsx", "excelize, streaming", u.plainXLSX},
		{"csv", "COPY to CSV", u.plainCSV},
		{"parquet", "parquet-go", u.plainParquet},
	} {
		// A process that has made none yet grows by what any first one takes.
		if _, err := u.export(ctx, q, small.id, format.name, io.Discard); err != nil {
			return err
		}
		u.say("exporting %d rows as %s", u.n, format.name)
		before, w := resident(q.pid()), watchResident(q.pid())
		took, err := u.export(ctx, q, of.id, format.name, io.Discard)
		peak := w.end().Root
		if err != nil {
			return err
		}
		begin := time.Now()
		if err := format.plain(ctx); err != nil {
			return fmt.Errorf("%s: %w", format.peer, err)
		}
		plain := time.Since(begin)
		name := "export as " + format.name
		u.add(
			line{uploadSection, name, "rows/s", more, float64(u.n) / took.Seconds(), format.peer, float64(u.n) / plain.Seconds()},
			line{uploadSection, name + ": the process' growth", "MB", less, float64(max(peak-before, 0)) / 1e6, "limit", mostGrowth},
		)
	}
	return u.sameCells(ctx, q, of.id)
}

// export writes an export to a writer, and returns how long that took.
func (u *uploading) export(ctx context.Context, q *millrace, id, format string, to io.Writer) (time.Duration, error) {
	begin := time.Now()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet,
		"http://"+q.http+"/api/v1/uploads/"+id+"/export?exact=true&format="+format, nil)
	if err != nil {
		return 0, err
	}
	answer, err := u.user.Do(r)
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("export as %s: %s", format, answer.Status)
	}
	n, err := io.Copy(to, answer.Body)
	if err == nil && (n == 0 || answer.Trailer.Get("Millrace-Sha256") == "") {
		err = errors.New("it was cut off")
	}
	if err != nil {
		return 0, fmt.Errorf("export as %s: %w", format, err)
	}
	return time.Since(begin), nil
}

// sameCells makes sure that an export has the cells of the file.
func (u *uploading) sameCells(ctx context.Context, q *millrace, id string) error {
	u.say("comparing the export with the file")
	from, to := io.Pipe()
	go func() {
		_, err := u.export(ctx, q, id, "csv", to)
		_ = to.CloseWithError(err) // it returns no error
	}()
	defer from.Close()
	file, err := os.Open(u.file)
	if err != nil {
		return err
	}
	defer file.Close()
	got, want := csv.NewReader(from), csv.NewReader(file)
	for n := 0; ; n++ {
		a, errA := got.Read()
		b, errB := want.Read()
		switch {
		case errors.Is(errA, io.EOF) && errors.Is(errB, io.EOF) && n == u.n+1:
			return nil
		case errA != nil || errB != nil:
			return fmt.Errorf("line %d of the export: %w, of the file: %w", n, errA, errB)
		case !slices.Equal(a, b):
			return fmt.Errorf("line %d of the export is %q, of the file %q", n, a, b)
		}
	}
}

// plainXLSX writes the rows with the library alone.
func (u *uploading) plainXLSX(context.Context) error {
	book := excelize.NewFile()
	sheet, err := book.NewStreamWriter("Sheet1")
	if err != nil {
		return err
	}
	made, row := madeRows(), make([]any, len(rowColumns))
	for no := range u.n {
		for i, cell := range made[no%len(made)] {
			row[i] = cell
		}
		at, err := excelize.CoordinatesToCellName(1, no%1_048_576+1)
		if err == nil {
			err = sheet.SetRow(at, row)
		}
		if err != nil {
			return err
		}
		if no%1_048_576 != 1_048_575 {
			continue
		}
		name := fmt.Sprint("Sheet", no)
		if err := sheet.Flush(); err != nil {
			return err
		}
		if _, err := book.NewSheet(name); err != nil {
			return err
		}
		if sheet, err = book.NewStreamWriter(name); err != nil {
			return err
		}
	}
	if err := sheet.Flush(); err != nil {
		return err
	}
	return errors.Join(book.Write(io.Discard), book.Close())
}

// plainCSV has Postgres write the rows of the plain table.
func (u *uploading) plainCSV(ctx context.Context) error {
	return u.pool.AcquireFunc(ctx, func(c *pgxpool.Conn) error {
		_, err := c.Conn().PgConn().CopyTo(ctx, io.Discard,
			"COPY (SELECT * FROM "+plainTable+" ORDER BY no) TO STDOUT (FORMAT csv, HEADER)")
		return err
	})
}

// plainParquet writes the rows with the library alone.
func (u *uploading) plainParquet(context.Context) error {
	type plainRow struct {
		No, SKU, Title, Brand, Price, EAN, Category, Link, Description string
	}
	w := parquet.NewGenericWriter[plainRow](io.Discard, parquet.Compression(&zstd.Codec{}))
	made, rows := madeRows(), make([]plainRow, 1)
	for no := range u.n {
		c := made[no%len(made)]
		rows[0] = plainRow{c[0], c[1], c[2], c[3], c[4], c[5], c[6], c[7], c[8]}
		if _, err := w.Write(rows); err != nil {
			return err
		}
		if no%30_000 == 29_999 { // about as often as exports do
			if err := w.Flush(); err != nil {
				return err
			}
		}
	}
	return w.Close()
}
