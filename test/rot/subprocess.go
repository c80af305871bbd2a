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

// A part is opened on damaged files in a subprocess, since nothing but the end of its
// process stops a server that fills memory. JetStream fills it when the sequence of a
// stored message has become very large: it records each one below as deleted.

const (
	// openVariable is set in a subprocess: the name of the part to open, in the working
	// folder.
	openVariable = "ROT_OPEN"
	// mostHeap is how many bytes opening a part may take. What is not damaged takes
	// less than a tenth of it.
	mostHeap = 2 << 30
	// filled is the exit code of a process that would take more.
	filled = 3
)

var errFills = errors.New("it fills memory")

// openInSubprocess opens a part in a subprocess. It returns [errFills] if that takes more
// than mostHeap.
func openInSubprocess(ctx context.Context, part, dir string) (f finding, err error) {
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

// serveSubprocess opens the part and exits, in a subprocess. In any other process it
// does nothing.
func serveSubprocess() {
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
