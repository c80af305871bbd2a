package console

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// CompletionCmd prints what a shell needs to complete the words of a command.
type CompletionCmd struct {
	Shell string   `arg:"" enum:"bash,zsh,fish" help:"The shell: bash, zsh or fish."`
	Words []string `arg:"" optional:"" sep:"none" help:"Words of a command, behind --: print what its last word may become, instead. The shells do so."`
}

// Run prints a script for the shell, or completions with what they mean.
func (c *CompletionCmd) Run(con *Console, program *kong.Context) error {
	if len(c.Words) == 0 {
		_, err := io.WriteString(con.Out, scripts[c.Shell])
		return err
	}
	for _, w := range complete(program.Model.Node, c.Words[1:]) {
		if _, err := fmt.Fprintf(con.Out, "%s\t%s\n", w.text, w.help); err != nil {
			return err
		}
	}
	return nil
}

// scripts ask the program itself, so that they never know less than it. Where
// it knows nothing, files are completed.
var scripts = map[string]string{
	"bash": `# millrace: put this into ~/.bashrc: source <(millrace completion bash)
_millrace() {
	local IFS=$'\n'
	COMPREPLY=($("$1" completion bash -- "${COMP_WORDS[@]:0:COMP_CWORD+1}" 2>/dev/null | cut -f 1))
}
complete -o default -F _millrace millrace
`,
	"zsh": `#compdef millrace
# Put this into a file _millrace in a folder of $fpath: millrace completion zsh > ~/.zsh/_millrace
_millrace() {
	local line
	local -a found
	for line in "${(@f)$("${words[1]}" completion zsh -- "${(@)words[1,CURRENT]}" 2>/dev/null)}"; do
		[[ -n $line ]] && found+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}")
	done
	if (( $#found )); then _describe millrace found; else _files; fi
}
if [[ $funcstack[1] == _millrace ]]; then _millrace "$@"; else compdef _millrace millrace; fi
`,
	"fish": `# millrace: millrace completion fish > ~/.config/fish/completions/millrace.fish
function __millrace_complete
	set -l words (commandline -opc) (commandline -ct)
	set -l found ($words[1] completion fish -- $words 2>/dev/null)
	if test (count $found) -gt 0
		printf '%s\n' $found
	else
		__fish_complete_path (commandline -ct)
	end
end
complete -c millrace -f -a '(__millrace_complete)'
`,
}

// completion is a word that a command may have next.
type completion struct{ text, help string }

// complete returns what the last of the words behind the program's name may
// become: commands, flags, and values of which there are few.
func complete(at *kong.Node, words []string) (all []completion) {
	if len(words) == 0 {
		return nil
	}
	before, last := splitFlags(words[:len(words)-1]), words[len(words)-1]
	arguments := 0
	for i := 0; i < len(before); i++ {
		switch f := flagOf(at, before[i]); {
		case f != nil && !f.IsBool() && i == len(before)-1:
			return valuesOf(f.Value, last)
		case f != nil && !f.IsBool():
			i++ // its value
		case strings.HasPrefix(before[i], "-"):
		default:
			if child := childOf(at, before[i]); child != nil {
				at = child
			} else {
				arguments++
			}
		}
	}
	if name, value, has := strings.Cut(last, "="); has && flagOf(at, name) != nil {
		for _, v := range valuesOf(flagOf(at, name).Value, value) {
			all = append(all, completion{name + "=" + v.text, v.help})
		}
		return all
	}
	if strings.HasPrefix(last, "-") {
		return flagsOf(at, last)
	}
	for _, child := range at.Children {
		if !child.Hidden && strings.HasPrefix(child.Name, last) {
			all = append(all, completion{child.Name, child.Help})
		}
	}
	if at.DefaultCmd != nil {
		at = at.DefaultCmd
	}
	if arguments < len(at.Positional) {
		all = append(all, valuesOf(at.Positional[arguments], last)...)
	}
	return all
}

// splitFlags makes two words of --flag=value, as bash already has: it breaks
// words at =, too, which then is a word of its own.
func splitFlags(words []string) (all []string) {
	for _, word := range words {
		if word == "=" {
			continue
		}
		name, value, has := strings.Cut(word, "=")
		if all = append(all, name); has && strings.HasPrefix(word, "--") {
			all = append(all, value)
		}
	}
	return all
}

func childOf(at *kong.Node, name string) *kong.Node {
	for _, child := range at.Children {
		if child.Name == name || slices.Contains(child.Aliases, name) {
			return child
		}
	}
	return nil
}

// allFlags are those of a command, of the commands that it belongs to, and of
// the one that it stands for.
func allFlags(at *kong.Node) (all []*kong.Flag) {
	if at.DefaultCmd != nil {
		all = append(all, at.DefaultCmd.Flags...)
	}
	for ; at != nil; at = at.Parent {
		all = append(all, at.Flags...)
	}
	return slices.DeleteFunc(all, func(f *kong.Flag) bool { return f.Hidden })
}

func flagOf(at *kong.Node, word string) *kong.Flag {
	for _, f := range allFlags(at) {
		if word == "--"+f.Name || f.Short != 0 && word == "-"+string(f.Short) {
			return f
		}
	}
	return nil
}

func flagsOf(at *kong.Node, begin string) (all []completion) {
	for _, f := range allFlags(at) {
		if name := "--" + f.Name; strings.HasPrefix(name, begin) {
			all = append(all, completion{name, f.Help})
		}
	}
	return all
}

// valuesOf lists the values that begin so, where a value is one of a few.
func valuesOf(v *kong.Value, begin string) (all []completion) {
	if begin == "=" { // of --flag=, as bash breaks it
		begin = ""
	}
	if v.Enum == "" {
		return nil
	}
	for _, value := range v.EnumSlice() {
		if value != "" && strings.HasPrefix(value, begin) {
			all = append(all, completion{value, v.Help})
		}
	}
	return all
}
