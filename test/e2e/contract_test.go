package e2e

import (
	"net/http"
	"os"
	"slices"
	"sync"

	"github.com/millrace-io/millrace/internal/httpapi/contracttest"
)

// brokenPromises are answers of the API that its description does not allow.
type brokenPromises struct {
	mu    sync.Mutex
	found []string
}

// holdToContract has every answer that any of the tests gets over HTTP compared with the
// description of the API, which a test of the page holds to what servers give.
func holdToContract() (*brokenPromises, error) {
	description, err := os.ReadFile("../../query/dashboard/openapi.json")
	if err != nil {
		return nil, err
	}
	contract, err := contracttest.New(description)
	if err != nil {
		return nil, err
	}
	b := &brokenPromises{}
	http.DefaultTransport = contract.Transport(http.DefaultTransport, b.add)
	return b, nil
}

// shown bounds how many are told.
const shown = 100

func (b *brokenPromises) add(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.found) < shown && !slices.Contains(b.found, err.Error()) {
		b.found = append(b.found, err.Error())
	}
}

func (b *brokenPromises) all() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.found)
}
