package pipeline

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Warnings says which counted events ClickHouse lacks, as projectors have found.
func (s *Service) Warnings() []string {
	missing := s.mirror.Missing()
	var texts []string
	for _, group := range slices.Sorted(maps.Keys(missing)) {
		texts = append(texts, fmt.Sprintf("ClickHouse lacks %d of the events that slot group %d has counted: restore "+
			"them, or run millrace accept-identities --slot-group=%d (docs/recovery.md)", missing[group], group, group))
	}
	return texts
}

// rowsAreThere fails while there are such. The views show what there is, so it is no reason
// not to be ready.
func (s *Service) rowsAreThere(context.Context) error {
	if texts := s.Warnings(); len(texts) > 0 {
		return errors.New(strings.Join(texts, "; "))
	}
	return nil
}
