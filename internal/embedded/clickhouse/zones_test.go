package clickhouse_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/internal/embedded/clickhouse/chdb"
	"github.com/millrace-io/millrace/internal/embedded/clickhouse/judge"
	"github.com/millrace-io/millrace/internal/slowtest"
)

// beforeZone are arguments in front of a time zone, such as functions take that
// have one.
var beforeZone = []string{
	"", "now(), ", "'2020-01-01 00:00:00', ", "toInt64(1), ", "toUInt64(1), ", "generateUUIDv7(), ", "3, ",
	"now64(3), ",
	"now(), 1, ", "now(), '%Y', ", "'2020-01-01', '%Y-%m-%d', ", "'2020', 'yyyy', ", "'2020-01-01 00:00:00', 3, ",
	"'day', now(), ", "now(), INTERVAL 1 DAY, ",
	"20200101000000, 3, ", "1700000000, '%Y', ", "'day', now(), now(), ", "now(), INTERVAL 1 DAY, INTERVAL 2 DAY, ",
	"2020, 1, 1, 0, 0, 0, ", "2020, 1, 1, 0, 0, 0, 0, 3, ",
}

// TestTimeZones: no function that is allowed and that dates pass through reads a
// time zone from a file: the engine would, and its error says so.
func TestTimeZones(t *testing.T) {
	slowtest.Mark(t)
	v := vet(t)
	lists := judge.Lists()
	tried, refused := 0, 0
	for _, name := range names(t, `SELECT name FROM system.functions WHERE NOT is_aggregate AND (categories IN
		('Dates and Times', 'Time Window', 'Type Conversion', 'UUID', 'Time Series', '') OR alias_to != '')`) {
		if lists["functions"][name] != judge.Allowed || slices.Contains(parsersOwn, name) {
			continue
		}
		for _, before := range beforeZone {
			tried++
			sql := fmt.Sprintf("SELECT `%s`(%sconcat('file:', '/nonexistent'))", name, before)
			err := v.Raw(sql)
			if err == nil || !strings.Contains(err.Error(), "Cannot load time zone") {
				continue
			}
			var refusal *chdb.Exception
			if judged := v.Vet(sql); !errors.As(judged, &refusal) || refusal.Code != accessDenied {
				t.Errorf("%s is admitted (%v): %v", sql, judged, err)
			}
			refused++
		}
	}
	if refused < 150 {
		t.Errorf("of %d calls %d read a time zone from a file", tried, refused)
	}
	t.Logf("of %d calls %d would read a time zone from a file, and are refused", tried, refused)
}
