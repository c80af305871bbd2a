// Package readlimits holds the sessions of logins that only read to their limits in
// Postgres. Postgres lets every session change its statement_timeout and the like: the
// settings of a role are defaults. So Millrace looks at all sessions every two seconds, and
// ends those that are beyond a limit. A session cannot prevent that.
//
// It looks at the sessions of its own database whose login is a member of the role
// millrace_reader, and not of Millrace's own. Superusers count as members of every role, so
// it leaves them alone. It needs to see what others do (pg_read_all_stats) and to end it
// (pg_signal_backend); the embedded Postgres gives it both by making Millrace's role a member
// of the login analyst.
package readlimits
