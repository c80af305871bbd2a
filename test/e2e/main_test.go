package e2e

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// binary is the program under test.
var binary string

func TestMain(m *testing.M) { os.Exit(runTests(m)) }

func runTests(m *testing.M) int {
	dir, err := os.MkdirTemp("", "millrace-e2e-*")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	if binary, err = findBinary(dir); err != nil {
		fmt.Fprintln(os.Stderr, "find the program to test:", err)
		return 1
	}
	answers, err := holdToContract()
	if err != nil {
		fmt.Fprintln(os.Stderr, "read the description of the API:", err)
		return 1
	}
	status := m.Run()
	for _, broken := range answers.all() {
		fmt.Fprintln(os.Stderr, broken)
		status = max(status, 1)
	}
	return status
}

func findBinary(dir string) (string, error) {
	if path := os.Getenv("MILLRACE_BIN"); path != "" {
		if path, err := filepath.Abs(path); err != nil {
			return "", err
		} else if _, err := os.Stat(path); err != nil {
			return "", fmt.Errorf("MILLRACE_BIN: %w", err)
		}
		return filepath.Abs(path)
	}
	path := filepath.Join(dir, "millrace")
	out, err := exec.Command("go", "build", "-o", path, "../../cmd/millrace").CombinedOutput()
	if err != nil {
		return "", errors.Join(err, errors.New(string(out)))
	}
	return path, nil
}
