package main

import (
	"context"
	"os"
	"time"

	"github.com/millrace-io/millrace/schemas/uploads"
)

// Of the workers that rows move by while pages are asked for, and another user's rows are worked.
const (
	calmWorkers = 16
	calmService = 5 * time.Millisecond
)

const (
	fewRows  = 100
	fewTimes = 5
)

// queueing measures rows that workers of a queue process: pages of them, another user's rows beside them, and how fast
// workers that do nothing get through.
func (u *uploading) queueing(ctx context.Context, copied sent) error {
	plain, err := u.plainItems(ctx)
	if err != nil {
		return err
	}
	u.say("another user's %d rows, alone", fewRows)
	stop := u.m.startWork(ctx, uploadQueue, calmWorkers, func() { time.Sleep(calmService) })
	queuedAlone, err := u.few(ctx, uploadQueue, nil)
	if err == nil {
		err = stop()
	}
	if err != nil {
		return err
	}
	copiedAlone, err := u.few(ctx, uploads.Copy, nil)
	if err != nil {
		return err
	}
	u.say("uploading %d rows for a queue, and another user's %d beside them", u.n, fewRows)
	file, err := os.Open(u.file)
	if err != nil {
		return err
	}
	defer file.Close()
	s, err := u.send(ctx, u.user, uploadQueue, file)
	if err != nil {
		return err
	}
	copiedBeside, err := u.few(ctx, uploads.Copy, func() (bool, error) { return u.is(ctx, s.id, persisted) })
	if err != nil {
		return err
	}
	if _, err := u.await(ctx, u.user, s.id, 50*time.Millisecond, persisted); err != nil {
		return err
	}
	pages, err := u.pagesOf(ctx, s.id)
	if err != nil {
		return err
	}
	u.say("pages")
	if err := u.measurePages(ctx, pages, "rows at rest"); err != nil {
		return err
	}
	u.say("pages while rows move")
	stop = u.m.startWork(ctx, uploadQueue, calmWorkers, func() { time.Sleep(calmService) })
	if err := u.measurePages(ctx, pages, "rows move"); err != nil {
		return err
	}
	queuedBeside, err := u.few(ctx, uploadQueue, func() (bool, error) { return u.is(ctx, s.id, done) })
	if err == nil {
		err = stop()
	}
	if err != nil {
		return err
	}
	const by = "alone"
	u.add(
		line{uploadSection, "another user's 100 rows, by copy beside all that are persisted: median", "ms", less, copiedBeside.at(.5), by, copiedAlone.at(.5)},
		line{uploadSection, "another user's 100 rows, by a queue beside all that are worked: median", "ms", less, queuedBeside.at(.5), by, queuedAlone.at(.5)},
	)
	return u.workRows(ctx, s.id, plain)
}

func (u *uploading) is(ctx context.Context, id string, holds func(uploadNow) bool) (bool, error) {
	var now uploadNow
	err := u.get(ctx, u.user, "/uploads/"+id, nil, &now)
	return holds(now), err
}

// few measures how long some uploads of another user take until they are done: several, or as many as there are until
// something is over, at least one.
func (u *uploading) few(ctx context.Context, processor string, over func() (bool, error)) (l load, err error) {
	for range fewTimes {
		s, err := u.send(ctx, u.peer, processor, rowsText(fewRows))
		if err != nil {
			return l, err
		}
		at, err := u.await(ctx, u.peer, s.id, 5*time.Millisecond, done)
		if err != nil {
			return l, err
		}
		ended := false
		if over != nil {
			if ended, err = over(); err != nil {
				return l, err
			}
		}
		if ended && len(l.latency) > 0 {
			break
		}
		l.latency = append(l.latency, at.Sub(s.begin))
		if ended {
			break
		}
	}
	return l, nil
}

// plainSpeeds are those of a queue by itself.
type plainSpeeds struct{ filled, fed speed }

// addStep is how many items one request adds.
const addStep = 1000

// mostWorked is how many items, and rows, are worked by workers that do nothing, at most: they take as long each.
const mostWorked = 50_000

// plainItems measures what a queue reaches whose items have the same rows: when it is full before workers begin, and when items
// are added while they work.
func (u *uploading) plainItems(ctx context.Context) (s plainSpeeds, err error) {
	n := max(min(u.n, mostWorked)/addStep*addStep, addStep)
	u.say("working %d items of a queue by itself", n)
	if err := u.addItems(ctx, n); err != nil {
		return s, err
	}
	if s.filled, err = u.m.workOff(ctx, plainQueue, n); err != nil {
		return s, err
	}
	added := make(chan error, 1)
	go func() { added <- u.addItems(ctx, n) }()
	if s.fed, err = u.m.workOff(ctx, plainQueue, n); err != nil {
		return s, err
	}
	return s, <-added
}

func (u *uploading) addItems(ctx context.Context, n int) error {
	type newItem struct {
		Payload map[string]string `json:"payload"`
	}
	for from := 0; from < n; from += addStep {
		items := make([]newItem, addStep)
		for i := range items {
			cells := rowCells(from + i + 1)
			items[i].Payload = map[string]string{}
			for k, name := range rowColumns {
				items[i].Payload[name] = cells[k]
			}
		}
		if err := u.post(ctx, u.user, "/queues/"+plainQueue+"/items", map[string]any{"items": items}, nil); err != nil {
			return err
		}
	}
	return nil
}

// workRows works rows that are left of an upload with workers that do nothing.
func (u *uploading) workRows(ctx context.Context, id string, plain plainSpeeds) error {
	var now uploadNow
	if err := u.get(ctx, u.user, "/uploads/"+id, nil, &now); err != nil {
		return err
	}
	before, n := now.Processed, min(now.Total-now.Processed, mostWorked)
	u.say("working %d rows", n)
	watch := newStopwatch()
	stop := u.m.startWork(ctx, uploadQueue, workers, func() {})
	if _, err := u.await(ctx, u.user, id, 10*time.Millisecond, func(at uploadNow) bool {
		now = at
		return at.Processed >= before+n
	}); err != nil {
		return err
	}
	v := watch.stop(max(now.Processed-before, 1))
	if err := stop(); err != nil {
		return err
	}
	const filled, fed = "the queue by itself, filled before", "the queue by itself, items added meanwhile"
	u.add(
		line{uploadSection, "rows through a queue, no-op workers", "rows/s", more, v.rate, fed, plain.fed.rate},
		line{uploadSection, "", "rows/s", more, v.rate, filled, plain.filled.rate},
		line{uploadSection, "processor time of a row through a queue", "µs/row", less, v.cpu, fed, plain.fed.cpu},
	)
	return nil
}
