package child

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// lowPriority is a nice value: beside a thread of priority 0 that wants all of a
// processor, one of these gets a quarter of it. Anyone may lower the priority of
// processes of their own.
const lowPriority = 5

// lowerPriority lowers the priority of the threads of a process that have a name, and
// returns how many there are.
func lowerPriority(pid int, name string) (threads int, err error) {
	files, err := filepath.Glob(filepath.Join("/proc", strconv.Itoa(pid), "task", "*", "comm"))
	if err != nil {
		return 0, err
	}
	for _, file := range files {
		is, err := os.ReadFile(file)
		if err != nil || strings.TrimSpace(string(is)) != name {
			continue // it has another name, or has ended
		}
		thread, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err != nil {
			return threads, fmt.Errorf("threads of process %d: %w", pid, err)
		}
		err = unix.Setpriority(unix.PRIO_PROCESS, thread, lowPriority)
		if err != nil && !errors.Is(err, unix.ESRCH) {
			return threads, fmt.Errorf("lower the priority of thread %s: %w", name, err)
		}
		threads++
	}
	return threads, nil
}
