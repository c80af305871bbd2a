package main

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
)

// purpose is what the events of a data folder are: somebody's own, or those of
// the demonstration. A folder has one purpose for good.
type purpose string

const (
	ownEvents     purpose = "events"
	demonstration purpose = "demonstration"
)

// purposeFile names the purpose of the data folder that it lies in, as its first
// word.
const purposeFile = "PURPOSE"

// demoFolder is the data folder of the demonstration, below the one that is
// configured.
const demoFolder = "demo"

var purposeText = map[purpose]string{
	ownEvents:     "Millrace keeps events here. The demonstration never runs in this folder.\n",
	demonstration: "Millrace keeps the made-up events of its demonstration here. The folder can be removed.\n",
}

// purposeOf returns what a data folder is for; empty: nothing says so.
func purposeOf(dir string) (purpose, error) {
	text, err := os.ReadFile(filepath.Join(dir, purposeFile))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read what the data folder is for: %w", err)
	}
	word, _, _ := strings.Cut(string(text), "\n")
	return purpose(strings.TrimSpace(word)), nil
}

// claim marks a data folder, whose lock is held, with its purpose. It refuses a
// folder of another purpose, and one for the demonstration that holds anything
// which nobody has marked.
func claim(dir string, want purpose) error {
	has, err := purposeOf(dir)
	switch {
	case err != nil:
		return err
	case has == want:
		return nil
	case has == demonstration:
		return fmt.Errorf("the data folder %s holds the demonstration's events, among which no others belong: set "+
			"MILLRACE_DATA to another folder", dir)
	case has != "":
		return fmt.Errorf("the data folder %s is for %s, not for the demonstration: add --no-demo, or set "+
			"MILLRACE_DATA to another folder", dir, has)
	}
	if want == demonstration {
		if err := onlyLocked(dir); err != nil {
			return err
		}
	}
	if err := os.WriteFile(filepath.Join(dir, purposeFile), []byte(string(want)+"\n"+purposeText[want]),
		0o644); err != nil {
		return fmt.Errorf("mark the data folder: %w", err)
	}
	return nil
}

// onlyLocked returns an error when a folder holds more than its lock.
func onlyLocked(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("look into the data folder: %w", err)
	}
	for _, e := range entries {
		if e.Name() != lockFile {
			return fmt.Errorf("the folder %s, in which the demonstration would keep its events, holds others "+
				"already (%s): add --no-demo, or set MILLRACE_DATA to another folder", dir, e.Name())
		}
	}
	return nil
}

// settle decides on the data folder. The demonstration has one of its own, so
// that its events are never among others, and refuses servers that others may
// publish to.
func (c *upCmd) settle(log *slog.Logger) (purpose, error) {
	if c.NoDemo {
		return ownEvents, nil
	}
	if c.Shared.NATS != "" || c.Shared.ClickHouse != "" {
		return "", errors.New("the demonstration publishes to servers of its own alone, and MILLRACE_NATS_URL or " +
			"MILLRACE_CLICKHOUSE_DSN names another: add --no-demo")
	}
	has, err := purposeOf(c.Data)
	if err != nil {
		return "", err
	}
	if has != demonstration {
		c.Data = filepath.Join(c.Data, demoFolder)
	}
	log.Info("this is the demonstration, with made-up events and a data folder of its own; --no-demo starts without "+
		"it, for events of yours", "data", c.Data)
	return demonstration, nil
}
