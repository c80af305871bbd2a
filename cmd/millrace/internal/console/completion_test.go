package console

import (
	"strings"
	"testing"
)

// TestComplete: what the words of a command may become.
func TestComplete(t *testing.T) {
	parser, err := parse(t, "status")
	if err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string]string{
		"":                              "status top funnel events queues files sources batches jobs completion",
		"f":                             "funnel files",
		"queues ":                       "list pause resume limits retry-failed cancel",
		"queues re":                     "resume retry-failed",
		"queues --j":                    "--json",
		"queues retry-failed mail --st": "--state",
		"queues retry-failed --state ":  "failed dead cancelled",
		"queues retry-failed --state c": "cancelled",
		"funnel --per":                  "--period",
		"funnel --period=7":             "--period=7d",
		"funnel --period = 7":           "7d", // as bash breaks it
		"funnel --period =":             "today 24h 7d 30d",
		"funnel --period 7d --so":       "--source",
		"funnel --source ":              "",
		"funnel --json --t":             "--token --tz",
		"completion ":                   "bash zsh fish",
		"completion bash ":              "",
		"nothing --he":                  "--help",
	} {
		var got []string
		for _, c := range complete(parser.Model.Node, strings.Split(line, " ")) {
			got = append(got, c.text)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%q: %q, want %q", line, got, want)
		}
	}
}

// TestCompletionScripts: without words a shell gets what asks for them, with
// words what they may become and what that means.
func TestCompletionScripts(t *testing.T) {
	for line, want := range map[string]string{
		"completion bash":                        "complete -o default -F _millrace millrace",
		"completion zsh":                         "#compdef millrace",
		"completion fish":                        "complete -c millrace",
		"completion fish -- millrace queues can": "cancel\t",
	} {
		command, err := parse(t, line)
		if err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		if err := command.Run(&Console{Out: &out}); err != nil || !strings.Contains(out.String(), want) {
			t.Errorf("%s: %v, %s", line, err, &out)
		}
	}
}
