// Package child runs another program as a child process and keeps hold of it
// from its first moment to its last.
//
//  1. A child dies with this process, even when this process is killed with
//     SIGKILL. On Linux the kernel sees to it (PR_SET_PDEATHSIG). That signal is
//     tied to the thread that forked, not to the process, and the Go runtime may
//     end threads: so one goroutine, locked to its thread, starts the child and
//     waits for it. On other systems a small shell waits on a pipe that closes
//     with this process, and then kills the child's process group.
//  2. A child has a process group of its own: Ctrl-C on a terminal reaches only
//     the parent, which stops its children in the order that it wants.
//  3. Run returns only after the child and the readers of its output have ended.
//  4. What the child writes goes to the log line by line; the last lines of its
//     standard error come with the error when it ends uninvited.
package child
