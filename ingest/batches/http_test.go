package batches

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/millrace-io/millrace/internal/auth"
	"github.com/millrace-io/millrace/internal/httpapi"
)

var authOff = auth.Config{}

func (s *site) request(method, path, body string) (int, []byte) {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), method, s.base+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	answer, err := s.client.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return answer.StatusCode, text
}

// post announces a batch, and returns what the answer says: the batch, or the faults.
func (s *site) post(path, body string) (int, string) {
	s.t.Helper()
	status, text := s.request(http.MethodPost, path, body)
	var told struct {
		Announced
		Errors []httpapi.FieldError
	}
	if err := json.Unmarshal(text, &told); err != nil {
		s.t.Fatal(err)
	}
	if status == http.StatusAccepted {
		return status, fmt.Sprint(told.Format, " ", told.JobID, " ", told.BatchIndex, " ", told.Sequence)
	}
	var faults []string
	for _, e := range told.Errors {
		faults = append(faults, e.Field+"="+e.Code)
	}
	return status, strings.Join(faults, " ")
}
