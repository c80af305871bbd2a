package main

import (
	"bytes"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"time"
)

// A part is opened on damaged files in a process apart, for nothing stops a server
// that fills memory but the end of its process. JetStream fills it when the sequence of
// a stored message has become very large: it notes each one between as deleted.

const (
	// openVariable has the name of the part that this process has to open, in its
	// working folder.
	openVariable = "ROT_OPEN"
	// mostHeap is how many bytes opening a part may take. What is not damaged takes
	// less than a tenth of it.
	mostHeap = 2 << 30
	// filled is the exit code of a process that would take more.
	filled = 3
)

var errFills = errors.New("it fills memory")

// openApart opens a part in a process apart. It returns [errFills] if that takes more
// than mostHeap.
func openApart(ctx context.Context, part, dir string) (f finding, err error) {
	program, err := os.Executable()
	if err != nil {
		return f, err
	}
	var out, said bytes.Buffer
	cmd := exec.CommandContext(ctx, program)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), openVariable+"="+part)
	cmd.Stdout, cmd.Stderr = &out, &said
	err = cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == filled {
		return f, errFills
	}
	if err != nil {
		return f, fmt.Errorf("open %s: %w: %s", part, err, &said)
	}
	return f, gob.NewDecoder(&out).Decode(&f)
}

// openHere is what the process apart does, and never returns there. Elsewhere it does
// nothing.
func openHere() {
	name := os.Getenv(openVariable)
	if name == "" {
		return
	}
	go endIfFilled()
	err := fmt.Errorf("there is no part %q", name)
	for _, p := range parts() {
		if p.name() == name {
			var f finding
			if f, err = p.open(context.Background(), "."); err == nil {
				err = gob.NewEncoder(os.Stdout).Encode(f)
			}
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func endIfFilled() {
	for range time.Tick(100 * time.Millisecond) {
		var m runtime.MemStats
		if runtime.ReadMemStats(&m); m.HeapInuse > mostHeap {
			os.Exit(filled)
		}
	}
}
