package demo

import (
	"context"
	"math"
	"strconv"
	"time"
)

const (
	// historyDays is how far the history goes back: each period of the page has one before
	// it to compare with.
	historyDays = 62
	// historyPerDay is how many events a day has on average.
	historyPerDay = 600
	// historyPause is between two days, so that people and the replay are not held up.
	historyPause = 150 * time.Millisecond
)

// History publishes the events of the weeks before the warm-up, the newest day first;
// without a warm-up, none. It returns when ctx ends.
func (d *Demo) History(ctx context.Context) error {
	if d.cfg.WarmUp {
		d.publishHistory(ctx)
	}
	<-ctx.Done()
	return nil
}

func (d *Demo) publishHistory(ctx context.Context) {
	deliver := delivery{publisher: d.deliver.publisher, log: d.log}
	cfg := d.cfg
	cfg.Seed++
	start := time.Now()
	p := newPlayer(cfg, d.sample)
	p.past, p.newModel = start, start // all is of the past, and judged by the old model
	for day := range historyDays {
		p.history(start, day)
		for events := p.due(start); len(events) > 0 && ctx.Err() == nil; events = p.due(start) {
			deliver.publish(ctx, events)
		}
		select {
		case <-time.After(historyPause):
		case <-ctx.Done():
			return
		}
	}
}

// history makes the events of one of the days before now; 0 is the last one, which ends
// where the warm-up begins. Articles of each week are others than those of the week before.
func (p *player) history(now time.Time, day int) {
	until := now.AddDate(0, 0, -day)
	from := now.AddDate(0, 0, -day-1)
	if day == 0 {
		until = now.Add(-warmUpSpan - time.Minute)
	}
	p.edition = "week-" + strconv.Itoa(day/7)
	for at := from; at.Before(until); {
		before := p.queue.Len()
		p.poll(at)
		perSecond := historyPerDay / (24 * time.Hour).Seconds() * busy(at)
		at = at.Add(time.Duration(float64(p.queue.Len()-before) / perSecond * float64(time.Second)))
	}
}

// busy is how much more than on average is published at a time: people write by day, and
// less on weekends.
func busy(at time.Time) float64 {
	hour := float64(at.UTC().Hour()) + float64(at.UTC().Minute())/60
	factor := 1 - 0.6*math.Cos(2*math.Pi*(hour-3)/24)
	if day := at.UTC().Weekday(); day == time.Saturday || day == time.Sunday {
		factor *= 0.6
	}
	return factor
}
