package main

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

var update = flag.Bool("update", false, "write docs/settings.md")

// TestSettingsPage: docs/settings.md says what the flags say.
func TestSettingsPage(t *testing.T) {
	const file = "../../docs/settings.md"
	parser, err := newParser(new(cli), io.Discard, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	page := settingsPage(parser.Model)
	if *update {
		if err := os.WriteFile(file, page, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(text, page) {
		t.Errorf("%s is not what the flags say: run make docs", file)
	}
}

// TestSettingsHelp: every command, argument and flag says what it does.
func TestSettingsHelp(t *testing.T) {
	parser, err := newParser(new(cli), io.Discard, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	values := 0
	for _, c := range commands(parser.Model.Node) {
		if c.Help == "" {
			t.Errorf("%s has no help", c.Path())
		}
		for _, v := range append(arguments(c), options(c)...) {
			values++
			if !strings.HasSuffix(v.Help, ".") && !strings.Contains(v.Help, "://") {
				t.Errorf("%s, %s: the help is no sentence: %q", c.Path(), v.Name, v.Help)
			}
		}
	}
	if values < 50 {
		t.Errorf("only %d flags and arguments were found", values)
	}
}

const settingsPreface = `# Settings

<!-- Generated from the flags of cmd/millrace by "make docs". -->

Every setting is a flag, an environment variable, and a key of the YAML file that ` + "`--config`" + ` names. The key is the flag's
name without the dashes: ` + "`--http-addr=127.0.0.1:8080`, `MILLRACE_HTTP_ADDR=127.0.0.1:8080` or `http-addr: 127.0.0.1:8080`" + `. The
flag wins over the environment, and that over the file. ` + "`millrace <command> --help`" + ` shows all three.

` + "`MILLRACE_ENGINES`" + `, the folder of the embedded engines, is an environment variable alone. Its default is in the user's
cache folder. [Publishing](publishing.md#from-a-go-service) has the variables of the Go client.
`

// settingsPage is docs/settings.md: settings by group, then commands.
func settingsPage(model *kong.Application) []byte {
	b := bytes.NewBufferString(settingsPreface)
	all := settings(model.Node)
	var groups []string
	for _, s := range all {
		if !slices.Contains(groups, s.group) {
			groups = append(groups, s.group)
		}
	}
	for _, group := range groups {
		fmt.Fprintf(b, "\n## %s\n\n| environment | flag | default | what | commands |\n|---|---|---|---|---|\n", group)
		for _, s := range all {
			if s.group == group {
				fmt.Fprintf(b, "| `%s` | `--%s` | %s | %s | %s |\n", s.Envs[0], s.Name, fallback(s.Value), cell(s.Help),
					strings.Join(s.commands, ", "))
			}
		}
	}
	b.WriteString("\n## Commands\n")
	for _, c := range commands(model.Node) {
		fmt.Fprintf(b, "\n### millrace %s\n\n%s\n", commandName(c), c.Help)
		values := append(arguments(c), options(c)...)
		if len(values) > 0 {
			b.WriteString("\n| | default | what |\n|---|---|---|\n")
		}
		for _, v := range values {
			name := "`<" + v.Name + ">`"
			if v.Flag != nil {
				name = "`--" + v.Name + "`"
			}
			fmt.Fprintf(b, "| %s | %s | %s |\n", name, fallback(v), cell(v.Help))
		}
	}
	return b.Bytes()
}

// setting is a flag that has an environment variable, and the commands that
// have it with the same words.
type setting struct {
	*kong.Flag
	group    string
	commands []string
}

// settings lists them in the order in which they first appear; those with one
// variable stand together.
func settings(root *kong.Node) (all []setting) {
	add := func(f *kong.Flag, command string) {
		s := setting{f, groupOf(f), []string{command}}
		at := len(all)
		for i, known := range all {
			switch {
			case known.Envs[0] != f.Envs[0]:
				continue
			case known.Help == f.Help && known.Default == f.Default:
				if !slices.Contains(known.commands, command) {
					all[i].commands = append(all[i].commands, command)
				}
				return
			}
			s.group, at = known.group, i+1
		}
		all = slices.Insert(all, at, s)
	}
	for _, f := range root.Flags {
		if len(f.Envs) > 0 {
			add(f, "all")
		}
	}
	for _, c := range commands(root) {
		for _, f := range flags(c) {
			if len(f.Envs) > 0 {
				add(f, "`"+commandName(c)+"`")
			}
		}
	}
	return all
}

func groupOf(f *kong.Flag) string {
	if f.Group == nil {
		return "General"
	}
	return f.Group.Title
}

// commands lists the commands without commands of their own.
func commands(n *kong.Node) (all []*kong.Node) {
	for _, child := range n.Children {
		if child.Leaf() {
			all = append(all, child)
		}
		all = append(all, commands(child)...)
	}
	return all
}

// commandName is how a command is called, without the program's name.
func commandName(c *kong.Node) string {
	if c.Parent.Type == kong.CommandNode {
		return commandName(c.Parent) + " " + c.Name
	}
	return c.Name
}

// flags are those of a command and of the commands that it belongs to.
func flags(c *kong.Node) []*kong.Flag {
	all := c.Flags
	if c.Parent.Type == kong.CommandNode {
		all = append(flags(c.Parent), all...)
	}
	return slices.DeleteFunc(slices.Clone(all), func(f *kong.Flag) bool { return f.Hidden || f.Name == "help" })
}

// options are the flags that have no environment variable.
func options(c *kong.Node) (all []*kong.Value) {
	for _, f := range flags(c) {
		if len(f.Envs) == 0 {
			all = append(all, f.Value)
		}
	}
	return all
}

func arguments(c *kong.Node) []*kong.Value { return slices.Clone(c.Positional) }

// fallback is the default as a cell.
func fallback(v *kong.Value) string {
	switch {
	case v.Required:
		return "required"
	case v.Default != "":
		return "`" + cell(v.Default) + "`"
	case v.IsBool():
		return "`false`"
	}
	return ""
}

func cell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }
