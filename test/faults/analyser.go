package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/millrace-io/millrace/schemas/batches"
	"github.com/millrace-io/millrace/schemas/stream"
)

// badAnalyser is the fault of the analyser of items.
const badAnalyser kind = "bad-analyser"

// analyserTimeout is how long an answer of an analyser is waited for.
const analyserTimeout = 1500 * time.Millisecond

// mischief is what an analyser may do with a request while it is bad.
type mischief int

const (
	answersLate   mischief = iota // in time
	answersAfter                  // when nobody waits any more
	answersNever                  // or dies with the request
	answersNoJSON                 // but something else
	answersFewer                  // items than it was asked for
	answersMore                   // of them
	answersHuge                   // texts
	answersRules                  // that it breaks
	answersError                  // and no items
	dies                          // and comes again
	mischiefs
)

// analyser answers what Millrace asks about items, by the login of analysers. Of each item it says the id, so that an answer
// about another item would be noticed. While it is bad it is slow, silent, wrong and away by turns, as its seed says.
type analyser struct {
	url string
	bad atomic.Int32 // faults that go on

	mu       sync.Mutex
	random   *rand.Rand
	requests int
	did      [mischiefs]int
}

func newAnalyser(seed uint64, url string) *analyser {
	return &analyser{url: url, random: rand.New(rand.NewPCG(seed, 90))}
}

// begin begins the fault.
func (a *analyser) begin() (end func() error) {
	a.bad.Add(1)
	return func() error {
		a.bad.Add(-1)
		return nil
	}
}

// run answers until ctx ends. An analyser that has died comes again after a while.
func (a *analyser) run(ctx context.Context) {
	for ; ctx.Err() == nil; wait(ctx, time.Second) {
		if nc, err := connect(a.url); err == nil { // else it has died again
			a.live(ctx, nc)
			nc.Close()
		}
	}
}

// live answers until the analyser dies.
func (a *analyser) live(ctx context.Context, nc *nats.Conn) {
	living, die := context.WithCancel(ctx)
	defer die()
	_, err := nc.QueueSubscribe(stream.Analyse, "analysers", func(m *nats.Msg) {
		go func() {
			if !a.answer(living, m) {
				die()
			}
		}()
	})
	if err == nil {
		<-living.Done()
	}
}

// next is what is done with a request; mischiefs: it is answered.
func (a *analyser) next() mischief {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.requests++
	if a.bad.Load() == 0 {
		return mischiefs
	}
	m := mischief(a.random.IntN(int(mischiefs)))
	a.did[m]++
	return m
}

// answer answers a request, unless it dies of it.
func (a *analyser) answer(ctx context.Context, m *nats.Msg) (alive bool) {
	var asked batches.AnalyserRequest
	if err := json.Unmarshal(m.Data, &asked); err != nil {
		return true // the request is left alone, and Millrace would wait forever
	}
	reply := batches.AnalyserReply{Analyser: "faults/1", Items: make([]batches.Analysis, len(asked.Items))}
	for i, item := range asked.Items {
		reply.Items[i] = batches.Analysis{
			Sentiment: "neutral", Keywords: []string{item.ContentID, strconv.FormatUint(item.Attempts, 10)},
		}
	}
	switch a.next() {
	case answersLate:
		wait(ctx, analyserTimeout/3)
	case answersAfter:
		wait(ctx, 2*analyserTimeout)
	case answersNever:
		return true
	case answersNoJSON:
		_ = m.Respond([]byte("<html>503</html>")) // who is cut off is asked again, here and below
		return true
	case answersFewer:
		reply.Items = reply.Items[:len(reply.Items)/2]
		if len(asked.Items) == 0 {
			return true
		}
	case answersMore:
		reply.Items = append(reply.Items, batches.Analysis{Keywords: []string{"of nothing"}})
	case answersHuge:
		reply.Analyser = strings.Repeat("x", 700_000)
	case answersRules:
		for i := range reply.Items {
			reply.Items[i].Risk = "unheard of"
		}
	case answersError:
		reply = batches.AnalyserReply{Error: "nothing can be analysed now"}
	case dies:
		return false
	}
	if text, err := json.Marshal(reply); err == nil {
		_ = m.Respond(text)
	}
	return true
}

// String says what it did.
func (a *analyser) String() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	bad := 0
	for _, n := range a.did {
		bad += n
	}
	return fmt.Sprintf("%d requests to the analyser, of which it treated %d badly and died of %d", a.requests, bad, a.did[dies])
}

// checkAnalyses holds what was found out to the outcomes: one row for each that is a success, about this item, or with the
// reason why there is no analysis. bad tells whether the analyser ever was.
func (l *batchLoad) checkAnalyses(ctx context.Context, v *batchVerdict) error {
	rows, err := l.rows.query(ctx, `SELECT o.job_id, o.batch_index, o.position, o.version, countIf(a.seq > 0),
			countIf(a.analysis_error != ''),
			countIf(a.analysis_error = '' AND a.keywords = [o.content_id, toString(o.version)] AND a.sentiment = 'neutral')
		FROM item_outcomes AS o LEFT JOIN (SELECT * FROM item_analyses FINAL) AS a
			USING (job_id, batch_index, position, version)
		WHERE o.fetch_status = 'success' GROUP BY 1, 2, 3, 4`)
	if err != nil {
		return fmt.Errorf("compare analyses with outcomes: %w", err)
	}
	for _, row := range rows {
		if n := strings.Join(row[4:], " "); n == "1 1 0" {
			v.unanalysed++
		} else if n != "1 0 1" {
			v.wrong("of the outcome %v there are rows, errors and right analyses: %s", row[:4], n)
		}
	}
	v.analysed = len(rows) - v.unanalysed
	rows, err = l.rows.query(ctx, `SELECT count() FROM (SELECT * FROM item_analyses FINAL) AS a
		LEFT ANTI JOIN (SELECT * FROM item_outcomes WHERE fetch_status = 'success') AS o USING (job_id, batch_index, position, version)`)
	if err != nil {
		return fmt.Errorf("compare analyses with outcomes: %w", err)
	}
	if n := rows[0][0]; n != "0" {
		v.wrong("there are %s analyses of no outcome", n)
	}
	a := l.analyser
	a.mu.Lock()
	defer a.mu.Unlock()
	wrong := a.did[answersNoJSON] + a.did[answersFewer] + a.did[answersMore] + a.did[answersHuge] + a.did[answersRules] +
		a.did[answersError] + a.did[answersNever] + a.did[answersAfter] + a.did[dies]
	if v.unanalysed > 0 && wrong == 0 {
		v.wrong("%d items could not be analysed, by an analyser that was right all the time", v.unanalysed)
	}
	return nil
}
