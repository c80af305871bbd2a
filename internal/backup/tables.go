package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
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
	info := tables.Info{Parts: s.parts}
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
	cuts, err := s.funnel(ctx)
	if err != nil {
		return err
	}
	names, err := s.db.Tables(ctx)
	if err != nil {
		return err
	}
	for _, name := range names {
		p := tables.Part{Table: name}
		var fixed func() error
		switch name {
		case retiredTable, funnelTable:
			continue
		case eventsTable:
			p.Where = cuts.where()
			fixed = func() error {
				now, err := s.retired(ctx)
				if err == nil && now != retired {
					return errRetired
				}
				return err
			}
		case outcomesTable:
			r, err := s.record(batchesKey)
			if err != nil {
				return err
			}
			p.Where = fmt.Sprintf("seq <= %d", r.To)
		}
		if err := s.part(ctx, p, fixed); err != nil {
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

// cuts are the positions of slots in the set.
type cuts [stream.Slots]uint64

// where selects the events up to the positions.
func (c *cuts) where() string {
	same := true
	var list []string
	for _, seq := range c {
		same = same && seq == c[0]
		list = append(list, fmt.Sprint(seq))
	}
	if same {
		return fmt.Sprintf("seq <= %d", c[0])
	}
	return "seq <= [" + strings.Join(list, ", ") + "][reinterpretAsUInt8(substring(article_hash, 1, 1)) + 1]"
}

// funnel copies the funnel, and returns the positions that go with it (2).
func (s *saver) funnel(ctx context.Context) (*cuts, error) {
	l, err := s.layout()
	if err != nil {
		return nil, err
	}
	c := new(cuts)
	for _, g := range l.All() {
		if err := s.funnelOf(ctx, g); err != nil {
			return nil, err
		}
		r, err := s.record(g.Key())
		if err != nil {
			return nil, err
		}
		for slot := g.Number; slot < stream.Slots; slot += g.Of {
			c[slot] = max(c[slot], r.To)
		}
	}
	return c, nil
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
