package backup

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/millrace-io/millrace/schemas/stream"

	tables "github.com/millrace-io/millrace/internal/backup/clickhouse"
)

// cuts are positions of slots.
type cuts [stream.Slots]uint64

// where selects the events whose sequence is so to the position of their slot: <= or >.
func (c *cuts) where(is string) string {
	same := true
	var list []string
	for _, seq := range c {
		same = same && seq == c[0]
		list = append(list, fmt.Sprint(seq))
	}
	if same {
		return fmt.Sprintf("seq %s %d", is, c[0])
	}
	return "seq " + is + " [" + strings.Join(list, ", ") + "][reinterpretAsUInt8(substring(article_hash, 1, 1)) + 1]"
}

// events copies the events. Those up to the lasting positions do not change any more, until their month is retired: what
// a base has of them is not copied again. The others, which are those of one batch for each slot group, have a file of
// their own.
func (s *saver) events(ctx context.Context, lasting, to *cuts, fixed func() error) error {
	p := tables.Part{Table: eventsTable, Where: lasting.where("<="), Lasts: true}
	base, err := s.baseEvents(ctx, lasting)
	if err != nil {
		return err
	}
	n := 0
	if base != nil {
		for _, old := range base.parts {
			if err := s.set.Refer(ctx, old.File); err != nil {
				return err
			}
			s.parts = append(s.parts, old)
		}
		n = len(base.parts)
		p.Where += " AND " + base.cuts.where(">")
	}
	p.File = fmt.Sprintf("clickhouse/%s.%d.native.zst", eventsTable, n)
	if err := s.part(ctx, p, fixed); err != nil {
		return err
	}
	rest := tables.Part{
		Table: eventsTable, File: "clickhouse/" + eventsTable + ".last.native.zst",
		Where: to.where("<=") + " AND " + lasting.where(">"),
	}
	if err := s.part(ctx, rest, fixed); err != nil {
		return err
	}
	sum, err := s.eventsSum(ctx, lasting)
	s.lasting = &tables.Events{Cuts: lasting[:], Sum: sum}
	return err
}

// eventsSum is the number of events up to positions, and a sum of what they are known by.
func (s *saver) eventsSum(ctx context.Context, upto *cuts) (string, error) {
	return s.db.Text(ctx, "SELECT toString((count(), sum(cityHash64(seq, identity)))) FROM "+eventsTable+
		" WHERE "+upto.where("<="))
}

// baseParts are the lasting events of a base.
type baseParts struct {
	parts []tables.Part
	cuts  cuts
}

// baseEvents returns what the base has of the events; nil if there is none, or if the table has others now: months were
// retired since, rows are lost, or the base is one of another installation.
func (s *saver) baseEvents(ctx context.Context, lasting *cuts) (*baseParts, error) {
	if s.base == nil {
		return nil, nil
	}
	var info tables.Info
	if _, err := s.base.Info(tables.Store, &info); err != nil {
		return nil, err
	}
	whole := func(why string) (*baseParts, error) {
		s.Log.Warn("the backup takes all events, and not those alone that its base lacks", "reason", why)
		return nil, nil
	}
	versions, err := s.db.Versions(ctx)
	switch {
	case err != nil:
		return nil, err
	case info.Events == nil || len(info.Events.Cuts) != len(cuts{}):
		return whole("the base was made by an earlier release")
	case !slices.Equal(versions, info.Versions):
		return whole("the base has other tables")
	}
	b := &baseParts{cuts: cuts(info.Events.Cuts)}
	for slot, seq := range b.cuts {
		if seq > lasting[slot] {
			return whole("the base is ahead of the installation")
		}
	}
	sum, err := s.eventsSum(ctx, &b.cuts)
	if err != nil {
		return nil, err
	}
	if sum != info.Events.Sum {
		return whole("the events of the base are not in the table any more")
	}
	for _, p := range info.Parts {
		if p.Table == eventsTable && p.Lasts {
			b.parts = append(b.parts, p)
		}
	}
	return b, nil
}
