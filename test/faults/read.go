package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// database reads ClickHouse over its HTTP interface, as an analyst.
type database struct{ addr string }

// query returns the rows of a result as text.
func (d database) query(ctx context.Context, sql string) (rows [][]string, err error) {
	body, err := fetch(ctx, http.MethodPost, "http://"+d.addr+"/?user=analyst", sql+" FORMAT JSONCompactStringsEachRow")
	if err != nil {
		return nil, fmt.Errorf("%s: %w", sql, err)
	}
	for dec := json.NewDecoder(strings.NewReader(string(body))); ; {
		var row []string
		if err := dec.Decode(&row); err == io.EOF {
			return rows, nil
		} else if err != nil {
			return nil, fmt.Errorf("%s: %w", sql, err)
		}
		rows = append(rows, row)
	}
}

// fetch asks for a while: who answers may just be starting.
func fetch(ctx context.Context, method, target, body string) (answer []byte, err error) {
	for range 60 {
		if answer, err = fetchOnce(ctx, method, target, body); err == nil || ctx.Err() != nil {
			break
		}
		time.Sleep(250 * time.Millisecond)
	}
	return answer, err
}

func fetchOnce(ctx context.Context, method, target, body string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, target, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s %s: status %d: %.300s", method, target, resp.StatusCode, answer)
	}
	return answer, err
}

// fetchInto reads an answer of JSON.
func fetchInto(ctx context.Context, target string, into any) error {
	body, err := fetchOnce(ctx, http.MethodGet, target, "")
	if err != nil {
		return err
	}
	return json.Unmarshal(body, into)
}

// exec changes something, as the login that may.
func (d database) exec(ctx context.Context, sql string) error {
	_, err := fetch(ctx, http.MethodPost, "http://"+d.addr+"/?user=default&password="+chPassword, sql)
	return err
}
