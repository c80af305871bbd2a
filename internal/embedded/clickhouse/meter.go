package clickhouse

import (
	"sync"
	"time"

	"github.com/millrace-io/millrace/internal/embedded/clickhouse/chdb"
)

// meter gives emit the progress of a statement: with each chunk of its result,
// and between them as the engine's list of running statements has it.
type meter struct {
	engine *engine
	tag    string
	every  time.Duration // between two looks at the list
	emit   emitter

	mu    sync.Mutex
	sum   chdb.Chunk // of what the chunks say
	known chdb.Chunk // the most that chunks or the list have said; emit has been told
}

// start looks at the statement now and then until stop is called.
func (m *meter) start() (stop func()) {
	end, ended := make(chan struct{}), make(chan struct{})
	m.engine.watched.add(m.tag)
	go func() {
		defer close(ended)
		tick := time.NewTicker(m.every)
		defer tick.Stop()
		for {
			select {
			case <-end:
				return
			case <-tick.C:
			}
			if now, running := m.engine.running(m.tag); running && m.look(now) != nil {
				return
			}
		}
	}()
	return func() {
		close(end)
		<-ended
		m.engine.watched.remove(m.tag)
	}
}

// chunk takes a chunk of the result.
func (m *meter) chunk(c chdb.Chunk) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sum.ReadRows += c.ReadRows
	m.sum.ReadBytes += c.ReadBytes
	m.sum.WrittenRows += c.WrittenRows
	m.sum.WrittenBytes += c.WrittenBytes
	return m.emit(m.news(m.sum, c))
}

// look takes what the statement has done in all.
func (m *meter) look(now chdb.Chunk) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	news := m.news(now, chdb.Chunk{Report: true, Memory: now.Memory})
	if news.ReadRows+news.WrittenRows+news.TotalRows == 0 {
		return nil
	}
	return m.emit(news)
}

// news is c with what is new in the sums of all.
func (m *meter) news(all, c chdb.Chunk) chdb.Chunk {
	for _, f := range []struct{ all, known, news *uint64 }{
		{&all.ReadRows, &m.known.ReadRows, &c.ReadRows},
		{&all.ReadBytes, &m.known.ReadBytes, &c.ReadBytes},
		{&all.TotalRows, &m.known.TotalRows, &c.TotalRows},
		{&all.WrittenRows, &m.known.WrittenRows, &c.WrittenRows},
		{&all.WrittenBytes, &m.known.WrittenBytes, &c.WrittenBytes},
	} {
		most := max(*f.all, *f.known)
		*f.news, *f.known = most-*f.known, most
	}
	return c
}
