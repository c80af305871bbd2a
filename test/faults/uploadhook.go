package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// hookMood is what a receiver of webhooks does with requests for a while.
type hookMood int

const (
	hookCalm hookMood = iota
	hookSlow
	hookHangs
	hookThrottles
	hookFails
	hookDies
)

// hookSecret signs its requests.
const hookSecret = "millrace faults, of the webhook"

// hookTimeout is for how long an answer is waited for.
const hookTimeout = 2 * time.Second

// badAnswers are how many requests a receiver throttles or fails at a time: all rows have the same host, and each of these
// has the next one tried again later.
const badAnswers = 2

// hookReceiver is the receiver of the webhook of a queue. By a plan it is slow, hangs, throttles, fails and dies.
type hookReceiver struct {
	addr   string
	load   *uploadLoad
	verify *standardwebhooks.Webhook
	random *rand.Rand // of moods

	mu       sync.Mutex
	mood     hookMood
	left     int // bad answers
	requests int
	bad      map[hookMood]int
}

func newHookReceiver(seed uint64, addr string, load *uploadLoad) *hookReceiver {
	verify, err := standardwebhooks.NewWebhookRaw([]byte(hookSecret))
	if err != nil {
		panic(err) // the secret is a constant
	}
	return &hookReceiver{
		addr: addr, load: load, verify: verify, random: rand.New(rand.NewPCG(seed, 80)), bad: map[hookMood]int{},
	}
}

// settings are those of the webhook.
func (h *hookReceiver) settings() map[string]any {
	return map[string]any{
		"url": "http://" + h.addr + "/rows", "secret": "whsec_" + base64.StdEncoding.EncodeToString([]byte(hookSecret)),
		"timeout_s": hookTimeout.Seconds(), "concurrency": 4,
	}
}

// run receives until ctx ends, and is in moods until nobody is to suffer any more.
func (h *hookReceiver) run(ctx context.Context) error {
	for ctx.Err() == nil {
		if err := h.live(ctx); err != nil {
			return err
		}
		wait(ctx, time.Duration(200+h.random.IntN(2000))*time.Millisecond)
	}
	return nil
}

// live receives until the receiver dies.
func (h *hookReceiver) live(ctx context.Context) error {
	listener, err := net.Listen("tcp", h.addr)
	if err != nil {
		return fmt.Errorf("receive webhooks: %w", err)
	}
	server := &http.Server{Handler: h, ReadHeaderTimeout: time.Minute}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	for ctx.Err() == nil {
		mood := hookMood(max(0, h.random.IntN(9)-3)) // calm in four of nine times
		if h.load.honest.Load() {
			mood = hookCalm
		}
		h.mu.Lock()
		h.mood, h.left = mood, badAnswers
		h.mu.Unlock()
		if mood == hookDies {
			break
		}
		wait(ctx, time.Duration(500+h.random.IntN(3000))*time.Millisecond)
	}
	err = server.Close()
	<-ended // it says that it was closed
	return err
}

// next is how a request is answered.
func (h *hookReceiver) next() hookMood {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.requests++
	mood := h.mood
	if mood == hookThrottles || mood == hookFails {
		if h.left--; h.left < 0 {
			return hookCalm
		}
	}
	if mood != hookCalm {
		h.bad[mood]++
	}
	return mood
}

// String says what it did.
func (h *hookReceiver) String() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return fmt.Sprintf("%d requests, of which it answered %d late, %d with 429, %d with 503 and %d not at all",
		h.requests, h.bad[hookSlow], h.bad[hookThrottles], h.bad[hookFails], h.bad[hookHangs])
}

// ServeHTTP implements http.Handler.
func (h *hookReceiver) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // it was cut off
	}
	// By which clock it was signed is not looked at: that of the sender may have jumped.
	if err := h.verify.VerifyIgnoringTimestamp(body, r.Header); err != nil {
		h.load.notes.fail("a request to the webhook is not signed as it should be: %v", err)
	}
	switch h.next() {
	case hookSlow:
		wait(r.Context(), hookTimeout/2)
	case hookHangs:
		wait(r.Context(), 2*hookTimeout)
		panic(http.ErrAbortHandler) // ends the connection
	case hookThrottles:
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusTooManyRequests)
		return
	case hookFails:
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	h.answer(w, body)
}

// answer says what becomes of a row, as it was planned.
func (h *hookReceiver) answer(w http.ResponseWriter, body []byte) {
	var call struct {
		Queue   string
		Attempt int
		Payload json.RawMessage
	}
	if err := json.Unmarshal(body, &call); err != nil || call.Queue != hookedQueue {
		h.load.notes.fail("the webhook gets %.200s: %v", body, err)
	}
	p, row, ok := h.load.rowOf(hookedQueue, call.Payload)
	switch fate := p.fate(row); {
	case !ok, fate == rowInvalid:
		w.WriteHeader(http.StatusUnprocessableEntity)
	case fate == rowMissing:
		w.WriteHeader(http.StatusNotFound)
	case fate == rowFails && call.Attempt == 1:
		w.WriteHeader(http.StatusRequestTimeout)
	default:
		_, _ = io.Copy(w, strings.NewReader(p.result(row))) // who is gone asks again
	}
}
