package confine

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
)

// Rules are what a program may touch. Paths that do not exist are left out.
type Rules struct {
	Programs []string // to execute; with each of them its loader and the system's libraries
	Read     []string // files and folders to read
	Write    []string // folders in which everything may be done but executing
	Listen   []uint16 // TCP ports to listen on; none: it may open no socket at all
}

// Report is what holds for a program.
type Report struct {
	Landlock int      `json:"landlock"` // ABI of the kernel's Landlock; 0: none
	Seccomp  bool     `json:"seccomp"`
	Missing  []string `json:"missing,omitempty"` // what this kernel cannot do, and failures
}

// String is such as "landlock 7, seccomp", with what is missing behind it.
func (r Report) String() string {
	var holds []string
	if r.Landlock > 0 {
		holds = append(holds, "landlock "+strconv.Itoa(r.Landlock))
	}
	if r.Seccomp {
		holds = append(holds, "seccomp")
	}
	text := "none"
	if len(holds) > 0 {
		text = strings.Join(holds, ", ")
	}
	if len(r.Missing) > 0 {
		text += "; missing: " + strings.Join(r.Missing, "; ")
	}
	return text
}

// Whole tells whether everything holds.
func (r Report) Whole() bool { return r.Landlock > 0 && r.Seccomp && len(r.Missing) == 0 }

func (r *Report) miss(format string, args ...any) {
	r.Missing = append(r.Missing, fmt.Sprintf(format, args...))
}

// passed are the variables of the environment that a confined program gets:
// none of them holds a secret.
var passed = []string{
	"PATH", "TZ", "LANG", "GOMEMLIMIT", "GOGC", "GOMAXPROCS", "GODEBUG", "GOTRACEBACK", "GOCOVERDIR",
}

// Environ is the environment of this process without what could be a secret.
func Environ() []string {
	var env []string
	for _, name := range passed {
		if value, set := os.LookupEnv(name); set {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// envReport names the file descriptor to which [Exec] writes its report.
const envReport = "MILLRACE_CONFINEMENT_FD"

// ReportTo is the variable of the environment that makes [Exec] write its
// report to a file descriptor, which it closes.
func ReportTo(fd int) string { return envReport + "=" + strconv.Itoa(fd) }

// ReadReport reads what [Exec] has written, and "" from a program that ended
// before or confines nothing.
func ReadReport(r io.Reader) (report Report, given bool, err error) {
	text, err := io.ReadAll(io.LimitReader(r, 64<<10))
	if err != nil {
		return report, false, fmt.Errorf("read the report of a confined program: %w", err)
	}
	if len(text) == 0 {
		return report, false, nil
	}
	if err := json.Unmarshal(text, &report); err != nil {
		return report, false, fmt.Errorf("read the report of a confined program: %w", err)
	}
	return report, true, nil
}

// tell writes the report to whoever has asked for it.
func tell(report Report) error {
	fd, err := strconv.Atoi(os.Getenv(envReport))
	if err != nil {
		return nil // nobody has
	}
	text, err := json.Marshal(report)
	if err != nil {
		return fmt.Errorf("report the confinement: %w", err)
	}
	f := os.NewFile(uintptr(fd), "report")
	if _, err := f.Write(text); err != nil {
		return fmt.Errorf("report the confinement: %w", err)
	}
	return f.Close()
}
