package webhooks

import (
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"
)

// TestDocumentedReceiver: the receiver of docs/uploads.md takes what is signed, and nothing else.
func TestDocumentedReceiver(t *testing.T) {
	python, err := exec.LookPath("python3")
	switch {
	case err != nil && os.Getenv("CI") == "true": // nothing may pass there by not being run
		t.Fatal("there is no python3")
	case err != nil:
		t.Skip("there is no python3")
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := strconv.Itoa(free.Addr().(*net.TCPAddr).Port)
	_ = free.Close()
	secret := NewSecret()
	cmd := exec.Command(python, "testdata/receiver.py")
	cmd.Env = append(os.Environ(), "SECRET="+SecretText(secret), "PORT="+port)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	s := NewSender(local, nil)
	ask := func(secret []byte, payload string) Answer {
		c := Call{Queue: "enrich", ID: 1, Attempt: 1, Payload: json.RawMessage(payload)}
		return s.Send(t.Context(), Webhook{URL: "http://127.0.0.1:" + port + "/enrich", Secret: secret}, c)
	}
	row := `{"input":{"sku":"9","title":"Shelf"}}`
	a := ask(secret, row)
	for deadline := time.Now().Add(time.Minute); a.Err != nil && time.Now().Before(deadline); a = ask(secret, row) {
		time.Sleep(50 * time.Millisecond) // until it listens
	}
	if a.Kind() != Done || string(a.Body) != `{"title": "Shelf", "stock": 3}` {
		t.Errorf("%+v %s", a, a.Body)
	}
	if a := ask(secret, `{"input":{"sku":"","title":"Shelf"}}`); a.Kind() != NotFound {
		t.Errorf("%+v", a)
	}
	if a := ask(NewSecret(), row); a.Status != 401 {
		t.Errorf("with another secret: %+v", a)
	}
}
