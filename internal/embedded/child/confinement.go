package child

import (
	"errors"
	"fmt"
	"os"
	"os/exec"

	"github.com/millrace-io/millrace/internal/embedded/confine"
)

// confinement is the pipe through which a child says what confines it.
type confinement struct{ from, to *os.File }

// reportFD is the end of the pipe in the child.
const reportFD = 3

// command is the child's, with the stage that confines it in front and the pipe
// for its report.
func command(config *Config) (*exec.Cmd, *confinement, error) {
	path, args := config.Path, config.Args
	if config.Confine != nil {
		var err error
		if path, args, err = confine.Command(*config.Confine, path, args); err != nil {
			return nil, nil, err
		}
	}
	cmd := exec.Command(path, args...)
	cmd.Env, cmd.Dir = config.Env, config.Dir
	if config.Confine == nil && !config.Confines {
		return cmd, nil, nil
	}
	from, to, err := os.Pipe()
	if err != nil {
		return nil, nil, fmt.Errorf("make a pipe for its confinement: %w", err)
	}
	cmd.Env = append(cmd.Environ(), confine.ReportTo(reportFD))
	cmd.ExtraFiles = []*os.File{to}
	return cmd, &confinement{from, to}, nil
}

// started leaves the pipe to the child, so that it ends with it.
func (c *confinement) started() {
	if c != nil {
		_ = c.to.Close()
	}
}

func (c *confinement) close() {
	if c != nil {
		_ = c.from.Close()
	}
}

// confinement waits for the report. A child that serves has given it before;
// without one nothing confines it.
func (p *process) confinement() (*confine.Report, error) {
	if p.confined == nil {
		return nil, nil
	}
	report, given, err := confine.ReadReport(p.confined.from)
	switch {
	case p.ended():
		return nil, p.exitError()
	case err != nil:
		return nil, err
	case !given:
		return nil, errors.New("it has not said what confines it")
	}
	return &report, nil
}
