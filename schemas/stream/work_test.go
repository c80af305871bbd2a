package stream

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"
)

func TestWorkAnswers(t *testing.T) {
	const subject = "$JS.ACK.WORK.shard-worker.3.17.5.1795262572287986569.9"
	base := WorkAnswer{Consumer: "shard-worker", Seq: 17, Deliveries: 3}
	with := func(change func(*WorkAnswer)) WorkAnswer { a := base; change(&a); return a }
	for text, want := range map[string]WorkAnswer{
		"+ACK":                        base,
		"+NXT {\"batch\":1}":          base,
		"":                            with(func(a *WorkAnswer) { a.Kind = AnswerSettled }),
		"+WPI":                        with(func(a *WorkAnswer) { a.Kind = AnswerProgress }),
		"+TERM no such column":        with(func(a *WorkAnswer) { a.Kind, a.Reason = AnswerTerm, "no such column" }),
		"+TERM":                       with(func(a *WorkAnswer) { a.Kind = AnswerTerm }),
		"-NAK":                        with(func(a *WorkAnswer) { a.Kind = AnswerNak }),
		`-NAK {"delay": 1500000000}`:  with(func(a *WorkAnswer) { a.Kind, a.Delay = AnswerNak, 1500*time.Millisecond }),
		"-NAK 2s":                     with(func(a *WorkAnswer) { a.Kind, a.Delay = AnswerNak, 2*time.Second }),
		`-NAK {"delay": -1500000000}`: with(func(a *WorkAnswer) { a.Kind = AnswerNak }),
		string(Refused(time.Second)):  with(func(a *WorkAnswer) { a.Kind = AnswerRefused }),
	} {
		if got, err := ParseWorkAnswer(subject, []byte(text)); err != nil || got != want {
			t.Errorf("%q: %+v, %v; not %+v", text, got, err, want)
		}
	}
	dead, err := ParseWorkAnswer("$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.WORK.shard-worker",
		[]byte(`{"stream_seq":17,"deliveries":3}`))
	if want := with(func(a *WorkAnswer) { a.Kind = AnswerDead }); err != nil || dead != want {
		t.Errorf("%+v, %v; not %+v", dead, err, want)
	}
	for _, bad := range []string{
		"$JS.ACK.WORK.c.1.2.3.4", "$JS.ACK.OTHER.c.1.2.3.4.5",
		"$JS.ACK.WORK.c.x.2.3.4.5", "work.c", "$JS.ACK.WORK.c.1.2.3.4.", "$JS.ACK.WORK.c.1.2.3.4.5+ACK",
	} {
		if a, err := ParseWorkAnswer(bad, []byte("+ACK")); err == nil {
			t.Errorf("%s: %+v", bad, a)
		}
	}
	if a, err := ParseWorkAnswer(subject, []byte("hello")); err == nil {
		t.Errorf("hello: %+v", a)
	}
}

func TestWorkMovesAreChecked(t *testing.T) {
	for text, ok := range map[string]bool{
		`{"worker":"w","stage":"s","lease":1000000000,"moves":[{"k":0,"i":1,"g":1}]}`: true,
		`{"worker":"","stage":"s","moves":[{"k":0,"i":1,"g":1}]}`:                     false,
		`{"worker":"nats","stage":"s","moves":[{"k":0,"i":1,"g":1}]}`:                 false,
		`{"worker":"w","stage":"s","moves":[]}`:                                       false,
		`{"worker":"w","stage":"s","moves":[{"k":6,"i":1,"g":1}]}`:                    false,
		`{"worker":"w","stage":"s","moves":[{"k":1,"i":0,"g":1}]}`:                    false,
		`{"worker":"w","stage":"s","moves":[{"k":1,"i":1,"g":0}]}`:                    false,
		`{"worker":"w","stage":"s","moves":[{"k":3,"i":1,"g":1,"d":-1}]}`:             false,
		`{"worker":"w","stage":"s","offers":1000}`:                                    true,
		`{"worker":"w","stage":"s","offers":1001}`:                                    false,
		`{"worker":"w","stage":"s","offers":1,"moves":[]}`:                            false,
		`{"worker":"w","stage":"s","offers":-1}`:                                      false,
		`{"worker":"w","stage":"s","offers":1,"moves":[{"k":0,"i":1,"g":1}]}`:         false,
		`[]`: false,
	} {
		if _, err := ParseWorkMoves([]byte(text)); (err == nil) != ok {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func FuzzParseWorkAnswer(f *testing.F) {
	f.Add("$JS.ACK.WORK.shard-worker.3.17.5.1795262572287986569.9", `-NAK {"delay": 1}`)
	f.Add("$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.WORK.shard-worker", `{"stream_seq":17}`)
	f.Fuzz(func(t *testing.T, subject, text string) {
		a, err := ParseWorkAnswer(subject, []byte(text))
		if err == nil && (a.Kind > AnswerDead || a.Delay < 0) {
			t.Errorf("%q %q: %+v", subject, text, a)
		}
	})
}

func FuzzParseWorkItem(f *testing.F) {
	f.Add([]byte(
		`{"id":1,"filename":"a","shard":0,"stage":"s","generation":1,"attempts":0,"created_at":"2026-01-01T00:00:00Z"}`,
	))
	f.Fuzz(func(t *testing.T, data []byte) { roundTrip(t, data, ParseWorkItem) })
}

func FuzzParseWorkMoves(f *testing.F) {
	f.Add([]byte(`{"worker":"w","stage":"s","lease":1000000000,"moves":[{"k":3,"i":1,"g":1,"d":5,"e":"x"}]}`))
	f.Fuzz(func(t *testing.T, data []byte) { roundTrip(t, data, ParseWorkMoves) })
}

func FuzzParseShardReport(f *testing.F) {
	f.Add("shards.shard-worker.done", []byte(`{"filename":"a","shard":1}`))
	f.Add("shards.register", []byte(`{"filename":"a","shards":[1]}`))
	f.Fuzz(func(t *testing.T, subject string, data []byte) {
		roundTrip(t, data, func(data []byte) (ShardReport, error) {
			r, err := ParseShardReport(subject, data)
			if err == nil && r.Stage != "" && ShardSubject(r.Stage, r.Move) != subject {
				t.Errorf("%q: %+v", subject, r)
			}
			return r, err
		})
	})
}

// roundTrip holds that what was read is read again from its own text.
func roundTrip[T any](t *testing.T, data []byte, parse func([]byte) (T, error)) {
	v, err := parse(data)
	if err != nil {
		return
	}
	text, err := json.Marshal(v)
	if err != nil {
		return // a time beyond what JSON holds
	}
	again, err := parse(text)
	if err != nil || !reflect.DeepEqual(v, again) {
		t.Errorf("%s: %+v is read again as %+v: %v", data, v, again, err)
	}
}
