package pipeline

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-io/millrace/internal/lag"
	"github.com/millrace-io/millrace/projector/fold"
	"github.com/millrace-io/millrace/projector/keystore"
	"github.com/millrace-io/millrace/schemas/slots"
)

// TestUnfoldedReasons: a group that is held and not folded has a reason, until it is folded
// or somebody else's.
func TestUnfoldedReasons(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := unfolded{groups: map[uint32]*holding{}}
		group, full, refused := slots.Group{ID: 7}, false, false
		expect := func(when string, want lag.Reason) {
			t.Helper()
			all := map[uint32]lag.Reason{}
			if want != "" {
				all[7] = want
			}
			if got := u.reasons(); !maps.Equal(got, all) {
				t.Errorf("%s: %v, want %q", when, got, want)
			}
		}
		begin := func() (end func(error)) {
			full, refused = false, false
			end = u.begin(group)
			u.uses(group, func() bool { return full }, func() bool { return refused })
			return end
		}
		expect("before any session", "")
		end := begin()
		expect("while it opens", opening)
		refused = true
		expect("while ClickHouse is away", clickhouseFailing)
		refused = false
		u.opened(group)
		expect("while it is folded", "")
		full, refused = true, true
		expect("with a full disk", keyStoreFull)
		for err, want := range map[error]lag.Reason{
			fmt.Errorf("not folded: %w", errRowsMissing): rowsMissing,
			fmt.Errorf("open: %w", keystore.ErrDamaged):  keyStoreDamaged,
			fmt.Errorf("open: %w", keystore.ErrFull):     keyStoreFull,
			errors.New("something else"):                 failing,
		} {
			end(err)
			expect("after its session failed", want)
			end = begin()
			expect("when it is tried again", want)
			u.opened(group)
			expect("when it is folded again", "")
		}
		for _, err := range []error{nil, context.Canceled, fold.ErrLost} {
			end(err)
			expect(fmt.Sprint("after its session ended with ", err), "")
			end = begin()
		}
		end(errors.New("refused"))
		time.Sleep(2 * forgetAfter)
		expect("when another projector has had it for a while", "")
	})
}
