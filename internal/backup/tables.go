package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/millrace-io/millrace/schemas/slots"
	"github.com/millrace-io/millrace/schemas/stream"

	tables "github.com/millrace-io/millrace/internal/backup/clickhouse"
)

// Tables that are more than rows to copy.
const (
	retiredTable  = "retired"
	funnelTable   = "funnel"
	eventsTable   = "events"
	outcomesTable = "item_outcomes"
)

var (
	errMoved   = errors.New("a batch was decided meanwhile")
	errRetired = errors.New("a month was retired meanwhile")
)

const (
	// tableTries is how often the tables are begun again because a month was retired.
	tableTries = 3
	// funnelWait bounds waiting for a gap between two batches that is long enough to look at the funnel.
	funnelWait = 5 * time.Minute
)

// tables copies ClickHouse (2, 3, 4).
func (s *saver) tables(ctx context.Context) error {
	for attempt := 1; ; attempt++ {
		s.parts = nil
		err := s.tablesOnce(ctx)
		if !errors.Is(err, errRetired) || attempt == tableTries {
			if err != nil {
				return err
			}
			break
		}
		s.Log.Info("a month was retired while the tables were copied; copying them again")
	}
	info := tables.Info{Parts: s.parts, Events: s.lasting}
	var err error
	if info.Server, err = s.db.Server(ctx); err != nil {
		return err
	}
	if info.Versions, err = s.db.Versions(ctx); err != nil {
		return err
	}
	return s.set.Note(tables.Store, info)
}

func (s *saver) tablesOnce(ctx context.Context) error {
	retired, err := s.retired(ctx)
	if err != nil {
		return err
	}
	if err := s.part(ctx, tables.Part{Table: retiredTable}, nil); err != nil {
		return err
	}
	cuts, lasting, err := s.funnel(ctx)
	if err != nil {
		return err
	}
	names, err := s.db.Tables(ctx)
	if err != nil {
		return err
	}
	for _, name := range names {
		p := tables.Part{Table: name}
		switch name {
		case retiredTable, funnelTable:
			continue
		case eventsTable:
			if err := s.events(ctx, lasting, cuts, func() error {
				now, err := s.retired(ctx)
				if err == nil && now != retired {
					return errRetired
				}
				return err
			}); err != nil {
				return err
			}
			continue
		case outcomesTable:
			r, err := s.record(batchesKey)
			if err != nil {
				return err
			}
			p.Where = fmt.Sprintf("seq <= %d", r.To)
		}
		if err := s.part(ctx, p, nil); err != nil {
			return err
		}
	}
	return nil
}

// retired is what the table of retired months says, in short.
func (s *saver) retired(ctx context.Context) (string, error) {
	return s.db.Text(ctx, "SELECT toString((count(), max(upto), max(at))) FROM "+retiredTable)
}

// part copies rows of a table.
func (s *saver) part(ctx context.Context, p tables.Part, fixed func() error) error {
	if p.File == "" {
		p.File = "clickhouse/" + p.Table + ".native.zst"
	}
	err := s.set.Write(ctx, p.File, func(to io.Writer) error { return s.db.Save(ctx, &p, to, fixed) })
	if err == nil {
		s.parts = append(s.parts, p)
	}
	return err
}

// funnel copies the funnel, and returns the positions that go with it (2): up to the first, each event is there for
// good, and up to the second some may be.
func (s *saver) funnel(ctx context.Context) (to, lasting *cuts, err error) {
	l, err := s.layout()
	if err != nil {
		return nil, nil, err
	}
	to, lasting = new(cuts), new(cuts)
	var unfinished [stream.Slots]bool // an earlier group of the slot has not ended
	for _, g := range l.All() {
		if err := s.funnelOf(ctx, g); err != nil {
			return nil, nil, err
		}
		r, err := s.record(g.Key())
		if err != nil {
			return nil, nil, err
		}
		from := max(r.From, g.After)
		ended := g.Upto > 0 && max(r.From, r.CaughtUp) >= g.Upto
		if ended {
			from = g.Upto
		}
		for slot := g.Number; slot < stream.Slots; slot += g.Of {
			to[slot] = max(to[slot], r.To)
			if !unfinished[slot] {
				lasting[slot] = max(lasting[slot], from)
				unfinished[slot] = g.Upto > 0 && !ended
			}
		}
	}
	for slot := range to {
		lasting[slot] = min(lasting[slot], to[slot])
	}
	return to, lasting, nil
}

// funnelOf copies the rows of a slot group between two decisions of it.
func (s *saver) funnelOf(ctx context.Context, g slots.Group) error {
	p := tables.Part{
		Table: funnelTable, File: fmt.Sprintf("clickhouse/%s.%d.native.zst", funnelTable, g.ID),
		Where: fmt.Sprintf("slot_group = %d", g.ID),
	}
	unmoved := func() error {
		now, err := s.value(ctx, g.Key())
		if err != nil {
			return err
		}
		after, err := parse(g.Key(), now)
		if err != nil {
			return err
		}
		if before, err := s.record(g.Key()); err != nil || before.To != after.To {
			return errors.Join(err, errMoved)
		}
		return nil
	}
	for begin := time.Now(); ; {
		err := s.readRecord(ctx, g.Key())
		if err == nil {
			err = s.part(ctx, p, unmoved)
		}
		if !errors.Is(err, errMoved) {
			return err
		}
		if time.Since(begin) > funnelWait {
			return fmt.Errorf("copy the funnel of slot group %d: for %s it has decided a batch whenever ClickHouse was asked: "+
				"take the backup while less is published", g.ID, funnelWait)
		}
	}
}
