// Package postgres runs a Postgres server as a child process, for installations
// that name no server of their own. Clients reach it over TCP as any other.
//
// What it promises:
//
//  1. The data folder is complete or absent: initdb works in a folder beside it,
//     which is renamed into place when it is done.
//  2. What was committed survives whatever ends the server. It dies with this
//     process (see package child); after that, or after any other crash, the next
//     start waits for what is left of it, and recovers.
//  3. Everyone who connects gives a password. The passwords are made on the first
//     start and kept beside the data, each in a file of its own for its owner
//     only.
//  4. Postgres refuses to run as root. For a root of Linux it runs in a user
//     namespace, where root bears another number: files still belong to root, and
//     folders that only root may enter stay within reach. Where namespaces are
//     not permitted, as in most containers, it runs as nobody and its folder is
//     given to nobody; and a folder that belongs to someone is served as them.
//  5. No superuser can log in. Millrace's own role owns the database and has no
//     rights beyond it; the owner of the cluster has no password and is rejected.
//     Roles are made in single-user mode before the server starts, and those of
//     an earlier release are brought up to date.
//  6. The login analyst reads what is granted to the role millrace_reader, and can
//     change nothing but its own password and settings, which the next starts
//     restore. Its connections and temporary files are limited, and its memory where
//     the system is Linux; dbpool.Watchdog enforces its limits of time.
//  7. With Config.Confine the server runs under the rules of package confine: it
//     reaches its data, its installation and its port, and nothing else.
package postgres
