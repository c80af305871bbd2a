// Package confine runs a program with the least that it needs: its own files,
// its own ports, and nothing else of the machine. It is the second wall behind
// the checks that an engine makes of what it is asked.
//
//  1. Files: Landlock grants what [Rules] list. Everything else is refused,
//     /proc of all processes included. What cannot be opened can still be
//     looked up (stat) by whoever may enter its folder.
//  2. Network: no connection goes out, over TCP, UDP or a Unix socket. A
//     program either opens TCP sockets for the ports of its Rules, or opens no
//     socket at all and serves listeners that it inherits. Landlock refuses
//     ports (kernel 6.7), seccomp refuses the calls: each covers what the
//     other cannot.
//  3. Privileges: no_new_privs, no capabilities but those of root over files, no
//     core dumps, no tracing of other processes, no namespaces, mounts,
//     keyrings, kernel modules or io_uring; no signals to processes outside
//     (kernel 6.12).
//  4. Secrets: [Environ] is all that a program gets of the environment of its
//     starter. Because the rules are applied before the program is executed, it
//     starts with fresh memory and a fresh /proc/self/environ, and no thread of
//     it was ever without the rules.
//  5. What the kernel cannot do is left out and named: see [Report]. Without
//     Landlock nothing of 1 holds, and the program runs nevertheless.
//
// The rules are applied in an executable of ours that then executes the
// program: in a stage of its own for a foreign program ([Command], [RunStage]),
// or by a process that replaces itself ([Exec]).
package confine
