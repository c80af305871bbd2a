package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// shape is what an operation's body looks like, as the API describes it.
type shape struct {
	Ref        string `json:"$ref"`
	Properties map[string]json.RawMessage
}

// bodies lists the fields of each operation's body, by method and path.
func (s *server) bodies(t *testing.T) map[[2]string][]string {
	t.Helper()
	resp, err := http.Get(s.url("/openapi.json"))
	_, _, text := s.read(resp, err)
	var doc struct {
		Paths      map[string]map[string]json.RawMessage
		Components struct{ Schemas map[string]shape }
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	all := map[[2]string][]string{}
	for path, methods := range doc.Paths {
		for method, text := range methods {
			var op struct {
				RequestBody struct {
					Content map[string]struct{ Schema shape }
				} `json:"requestBody"`
			}
			if method != "post" {
				continue
			}
			if err := json.Unmarshal(text, &op); err != nil {
				t.Fatal(err)
			}
			schema := op.RequestBody.Content["application/json"].Schema
			if name, ok := strings.CutPrefix(schema.Ref, "#/components/schemas/"); ok {
				schema = doc.Components.Schemas[name]
			}
			for field := range schema.Properties {
				at := [2]string{strings.ToUpper(method), path}
				all[at] = append(all[at], field)
			}
		}
	}
	if len(all) < 10 {
		t.Fatalf("%d operations have a body", len(all))
	}
	return all
}

// testCommands: no field of a command makes the server fail, whatever is in it
// and whatever the path says.
func testCommands(t *testing.T, s *server) {
	admin := token(t, "admin")
	values := []string{
		`-1`, `1e309`, `99999999999999999999`, `{}`, `[]`, `null`, `true`, `[null]`, `[{}]`,
		`[-1,"x"]`, `""`,
	}
	for _, value := range nasty() {
		text, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		values = append(values, string(text))
	}
	for at, fields := range s.bodies(t) {
		paths := []string{pathOf(at[1], "shard-worker"), pathOf(at[1], `a'b>*`)}
		for _, field := range fields {
			for i, value := range values {
				target := paths[i%len(paths)]
				status, body := s.with(t, admin, at[0], target, fmt.Sprintf(`{%q:%s}`, field, value))
				if status >= 500 {
					t.Errorf("%s %s with %s %.200s: status %d: %.300s", at[0], target, field, value, status, body)
				}
			}
		}
	}
	s.ask("SELECT count() FROM events")
}

// testStatements: the login that needs no password is for those who are on the
// machine, and not for the pages that they look at; who may only read, does.
func testStatements(t *testing.T, s *server) {
	for _, header := range []http.Header{
		{"Origin": {"https://evil.example"}, "Content-Type": {"text/plain"}},
		{"Sec-Fetch-Site": {"cross-site"}},
		{"Host": {"evil.example"}},
	} {
		for _, method := range []string{http.MethodPost, http.MethodGet} {
			req, err := http.NewRequestWithContext(t.Context(), method,
				"http://"+s.ports.ClickHouseHTTP+"/?user=default&query=CREATE+TABLE+theirs+(a+UInt8)+ENGINE=Memory",
				nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Header, req.Host = header, header.Get("Host")
			resp, err := http.DefaultClient.Do(req)
			if status, _, body := s.read(resp, err); status != http.StatusForbidden {
				t.Errorf("%s with %v: status %d: %s", method, header, status, body)
			}
		}
	}
	for _, sql := range []string{
		"DROP TABLE events", "INSERT INTO events SELECT * FROM events", "TRUNCATE TABLE funnel",
		"ALTER TABLE events DELETE WHERE 1", "SYSTEM SHUTDOWN",
		"SELECT * FROM file('/etc/passwd', 'LineAsString')", "SELECT file('/etc/passwd')",
		"SELECT * FROM url('http://127.0.0.1/', 'LineAsString')",
		"SELECT * FROM executable('id', 'CSV', 'a String')", "SELECT * FROM system.processes",
		"SELECT * FROM system.server_settings", "SELECT 1 INTO OUTFILE '/tmp/x'",
		"SELECT 1 SETTINGS max_execution_time = 0", "SET max_query_size = 0",
		"SELECT length(groupArray(toString(number))) FROM numbers(100000000)",
	} {
		if status, _, answer := s.sql("analyst", sql); status == http.StatusOK {
			t.Errorf("an analyst is given: %s: %.200s", sql, answer)
		}
	}
	if s.ask("EXISTS TABLE theirs") != "0" || s.ask("EXISTS TABLE events") != "1" {
		t.Error("the tables are not what they were")
	}
}
