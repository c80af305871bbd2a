package confine

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
)

// stageCommand is the first argument of the stage.
const stageCommand = "confined"

// Command returns the program and the arguments that confine and then execute
// a program, with the environment that they are given. The executable is this
// very one, whose main function has to call [RunStage] first. On Linux it is named
// through /proc, so that its path need not be open to the user that it runs as.
func Command(rules Rules, path string, args []string) (stage string, stageArgs []string, err error) {
	self, err := Self()
	if err != nil {
		return "", nil, fmt.Errorf("find this program: %w", err)
	}
	text, err := json.Marshal(rules)
	if err != nil {
		return "", nil, fmt.Errorf("write the rules for %s: %w", path, err)
	}
	return self, append([]string{stageCommand, string(text), path}, args...), nil
}

// RunStage returns when this process is no stage made by [Command]. Otherwise
// it never does.
func RunStage(args []string) {
	if len(args) < 4 || args[1] != stageCommand {
		return
	}
	death := LeaveFirstThread()
	var rules Rules
	err := json.Unmarshal([]byte(args[2]), &rules)
	if err == nil {
		err = Exec(rules, args[3], args[4:], os.Environ(), death)
	}
	if err == nil {
		err = errors.New("the program was not executed")
	}
	fmt.Fprintln(os.Stderr, "millrace: confine:", err)
	os.Exit(1)
}

// withoutReport is the environment for the program itself.
func withoutReport(env []string) []string {
	var kept []string
	for _, v := range env {
		if len(v) <= len(envReport) || v[:len(envReport)+1] != envReport+"=" {
			kept = append(kept, v)
		}
	}
	return kept
}

// nameOf is what a program is told as its name: programs find their files by it.
func nameOf(path string) string {
	if self, err := Self(); err == nil && path == self {
		return os.Args[0]
	}
	return path
}
