package stream

import (
	"fmt"
	"slices"
	"strings"
)

// Roles of logins on NATS.
const (
	RoleMillrace = "millrace" // Millrace's own processes: everything
	RoleProducer = "producer" // publishes events, reports and batches
	RoleSources  = "sources"  // publishes events about sources, which govern jobs
	RoleWorker   = "worker"   // takes items of work queues and answers
	RoleReader   = "reader"   // reads streams and what is announced
	RoleOperator = "operator" // looks after dead letters, queues and streams
	RoleAnalyser = "analyser" // answers what it finds out about items
	// RoleLocal is a producer and a worker, and no more: who connects on loopback
	// without a login.
	RoleLocal = "local"
)

// Account is the account of a role's logins. Each role has one of its own: a
// message from another account is answered there and nowhere else, so that
// nobody can have JetStream's answer written to a subject by naming that as
// the place for it, and no role reads the inboxes of another.
func Account(role string) string { return strings.ToUpper(role) }

// Role is what its logins may do, beside subscribing to their own inboxes.
type Role struct {
	Name string
	// Requests are the subjects that they may publish to. An answer comes back
	// to them.
	Requests []string
	// Follows are the subjects that they may subscribe to.
	Follows []string
	// Answers are the subjects on which they answer Millrace's requests, and nobody else's.
	Answers []string
}

// Roles returns all roles but RoleMillrace, which may do everything.
func Roles() []Role {
	// Whoever publishes events asks which of them are known, up to the end that
	// the stream has.
	producer := []string{
		EventSubjects, ShardSubjects, BatchSubjects, Known, "$JS.API.STREAM.INFO." + Events,
	}
	sources := []string{SourceSubjects}
	worker := []string{"$JS.API.CONSUMER.INFO." + Work + ".*", nextSubject, ackSubject, WorkMoves, WorkEnqueue, WorkReport}
	with := func(subjects ...[]string) (all []string) {
		for _, subject := range slices.Concat(append([][]string{{accountInfo}}, subjects...)...) {
			if !slices.Contains(all, subject) {
				all = append(all, subject)
			}
		}
		return all
	}
	return []Role{
		{Name: RoleProducer, Requests: with(producer)},
		{Name: RoleSources, Requests: with(sources)},
		{Name: RoleWorker, Requests: with(worker)},
		// WORK has rows that users have uploaded: those are for them, and for workers.
		{Name: RoleReader, Requests: with(reads(Events, Shards, Sources, Batches)), Follows: []string{FunnelDeltas}},
		{
			Name: RoleOperator, Requests: with(manages(Events, DLQ, Shards, Sources, Work, Batches), producer, sources,
				[]string{Processes}),
			Follows: []string{FunnelDeltas},
		},
		{Name: RoleAnalyser, Requests: with(), Answers: []string{Analyse}},
		{Name: RoleLocal, Requests: with(producer, worker)},
	}
}

// accountInfo is what clients ask to know whether there is JetStream. All roles
// need it: to an account without it the server itself answers every request of
// JetStream's, saying that there is none.
const accountInfo = "$JS.API.INFO"

// reads are the requests by which single messages of streams are read, and
// pages of them. A consumer is not among them: who makes one says where its
// messages go.
func reads(streams ...string) (subjects []string) {
	for _, s := range streams {
		subjects = append(subjects, "$JS.API.STREAM.INFO."+s, "$JS.API.STREAM.MSG.GET."+s, "$JS.API.DIRECT.GET."+s,
			"$JS.API.DIRECT.GET."+s+".>")
	}
	return subjects
}

// manages are requests on streams and their consumers: all but those for snapshots. A snapshot is sent to whatever
// subject of Millrace's account its request names, and one that is restored may hold anything.
func manages(streams ...string) []string {
	subjects := []string{"$JS.API.STREAM.NAMES", "$JS.API.STREAM.LIST"}
	for _, s := range streams {
		for _, request := range []string{"CREATE", "UPDATE", "INFO", "DELETE", "PURGE"} {
			subjects = append(subjects, "$JS.API.STREAM."+request+"."+s)
		}
		subjects = append(subjects,
			"$JS.API.STREAM.*.*."+s, "$JS.API.DIRECT.GET."+s, "$JS.API.DIRECT.GET."+s+".>",
			"$JS.API.CONSUMER.*."+s, "$JS.API.CONSUMER.*."+s+".>", "$JS.API.CONSUMER.*.*."+s+".>", "$JS.ACK."+s+".>")
	}
	return subjects
}

// inPlace are the requests to JetStream that Millrace takes in its place, and where.
// It is told who asks.
var inPlace = map[string]string{nextSubject: WorkPulls, ackSubject: daemonAcks}

// streamed tells whether a request may have more than one answer.
func streamed(subject string) bool {
	return subject == Known || subject == Processes || subject == WorkPulls || strings.HasPrefix(subject, "$JS.API.CONSUMER.MSG.NEXT.") ||
		strings.HasPrefix(subject, "$JS.API.CONSUMER.*.*.") ||
		strings.HasPrefix(subject, "$JS.API.DIRECT.GET.")
}

// DefaultConnections is how many connections a NATS server takes unless its configuration says
// otherwise.
const DefaultConnections = 64 << 10

// maxSubscriptions bounds those of one connection of a role. Clients need one for all of their
// requests, and one for each subject that they follow.
const maxSubscriptions = 1000

// AccountsConfig returns the roles as the accounts of the configuration of a NATS server that
// takes so many connections. Logins has the logins of each role, in its format, such as
// {user: a, password: b}; roles without any are left out. The connections of one role are
// at most three quarters of all, so that Millrace and the other roles can connect.
func AccountsConfig(logins map[string][]string, connections int) string {
	var b strings.Builder
	b.WriteString("accounts {\n")
	account := func(role string, lines func()) {
		fmt.Fprintf(&b, "  %s {\n", Account(role))
		lines()
		list(&b, "users", logins[role])
		b.WriteString("  }\n")
	}
	account(RoleMillrace, func() {
		b.WriteString("    jetstream: enabled\n")
		list(&b, "exports", append(exports(),
			fmt.Sprintf("{service: %q, response_type: stream, accounts: [%s]}", nextSubject, accountRelay)))
		list(&b, "imports", append([]string{
			fmt.Sprintf("{service: {account: %s, subject: %q}, to: %q}", accountRelay, "pull.*", relayed),
			fmt.Sprintf("{stream: {account: %q, subject: %q}}", accountSystem, Disconnects),
		}, answered(logins)...))
		fmt.Fprintf(&b, "    mappings: {%q: %q}\n", pulledPrefix+"*.*.*", RepliesPrefix+"$1.$2")
	})
	fmt.Fprintf(&b, "  %s {\n", accountRelay)
	list(&b, "exports", []string{fmt.Sprintf("{service: %q, response_type: stream, accounts: [%s]}", "pull.*",
		Account(RoleMillrace))})
	list(&b, "imports", []string{fmt.Sprintf("{service: {account: %s, subject: %q}, to: %q}", Account(RoleMillrace),
		nextSubject, "next.*")})
	fmt.Fprintf(&b, "    mappings: {%q: %q}\n  }\n", "pull.*", "next.$1")
	fmt.Fprintf(&b, "  %s {\n", accountSystem)
	list(&b, "exports", []string{fmt.Sprintf("{stream: %q, accounts: [%s]}", Disconnects, Account(RoleMillrace))})
	b.WriteString("  }\n")
	for _, r := range Roles() {
		if len(logins[r.Name]) > 0 {
			account(r.Name, func() {
				fmt.Fprintf(&b, "    limits {max_connections: %d, max_subscriptions: %d}\n", connections*3/4, maxSubscriptions)
				r.config(&b)
			})
		}
	}
	b.WriteString("}\n")
	return b.String()
}

// inboxes is where clients subscribe for answers.
const inboxes = "_INBOX.>"

// answered are the imports of Millrace's account: what roles with logins answer.
func answered(logins map[string][]string) (imports []string) {
	for _, r := range Roles() {
		for _, s := range r.Answers {
			if len(logins[r.Name]) > 0 {
				imports = append(imports, fmt.Sprintf("{service: {account: %s, subject: %q}}", Account(r.Name), s))
			}
		}
	}
	return imports
}

func (r Role) config(b *strings.Builder) {
	var imports []string
	from := Account(RoleMillrace)
	for _, s := range r.Requests {
		if taken := inPlace[s]; taken != "" {
			imports = append(imports, fmt.Sprintf("{service: {account: %s, subject: %q}, to: %q, share: true}", from,
				taken, s))
			continue
		}
		imports = append(imports, fmt.Sprintf("{service: {account: %s, subject: %q}}", from, s))
	}
	for _, s := range r.Follows {
		imports = append(imports, fmt.Sprintf("{stream: {account: %s, subject: %q}}", from, s))
	}
	list(b, "imports", imports)
	if len(r.Answers) > 0 {
		var exports []string
		for _, s := range r.Answers {
			exports = append(exports, fmt.Sprintf("{service: %q, accounts: [%s]}", s, from))
		}
		list(b, "exports", exports)
	}
	b.WriteString("    default_permissions {\n")
	list(b, "  publish", quoted(r.Requests))
	list(b, "  subscribe", quoted(slices.Concat([]string{inboxes}, r.Follows, r.Answers)))
	if len(r.Answers) > 0 {
		b.WriteString("      allow_responses: true\n")
	}
	b.WriteString("    }\n")
}

// exports are what any role may ask Millrace's account for, or follow.
func exports() (lines []string) {
	seen := map[string]bool{}
	add := func(subject, line string) {
		if !seen[subject] {
			seen[subject] = true
			lines = append(lines, line)
		}
	}
	for _, r := range Roles() {
		for _, s := range r.Requests {
			if taken := inPlace[s]; taken != "" {
				s = taken
			}
			line := fmt.Sprintf("{service: %q}", s)
			if streamed(s) {
				line = fmt.Sprintf("{service: %q, response_type: stream}", s)
			}
			add(s, line)
		}
		for _, s := range r.Follows {
			add(s, fmt.Sprintf("{stream: %q}", s))
		}
	}
	return lines
}

func quoted(subjects []string) (q []string) {
	for _, s := range subjects {
		q = append(q, fmt.Sprintf("%q", s))
	}
	return q
}

func list(b *strings.Builder, name string, lines []string) {
	fmt.Fprintf(b, "    %s: [\n", name)
	for _, line := range lines {
		fmt.Fprintf(b, "      %s\n", line)
	}
	b.WriteString("    ]\n")
}
