package stream

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
)

var update = flag.Bool("update", false, "write the accounts into deploy/nats.conf")

// TestDeployedRoles: the accounts of deploy/nats.conf are those of the table.
// go test ./schemas/stream -run TestDeployedRoles -update writes them.
func TestDeployedRoles(t *testing.T) {
	const file, mark = "../../deploy/nats.conf",
		"# What follows is generated: go test ./schemas/stream -run TestDeployedRoles -update\n"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	logins := map[string][]string{}
	for _, role := range []string{RoleMillrace, RoleProducer, RoleSources, RoleWorker, RoleReader, RoleOperator, RoleAnalyser} {
		logins[role] = []string{"{user: " + role + ", password: $NATS_" + strings.ToUpper(role) + "_PASSWORD}"}
	}
	head, present, found := strings.Cut(string(text), mark)
	if !found {
		t.Fatalf("%s has no line %q", file, mark)
	}
	want := AccountsConfig(logins, DefaultConnections)
	if *update {
		if err := os.WriteFile(file, []byte(head+mark+want), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if present != want {
		t.Errorf("the accounts of %s are not those of Roles: run this test with -update", file)
	}
}

// TestRolesAreApart: what Millrace alone may do is not in any role's list.
func TestRolesAreApart(t *testing.T) {
	for _, r := range Roles() {
		for _, s := range append(r.Requests, r.Follows...) {
			if r.Name == RoleReader && server.SubjectsCollide(s, "$JS.API.DIRECT.GET."+Work+".work.enrich") {
				t.Errorf("readers see the items of users by %s", s)
			}
			for _, copies := range []string{"$JS.API.STREAM.SNAPSHOT.", "$JS.API.STREAM.RESTORE."} {
				for _, name := range []string{Events, DLQ, Shards, Sources, Work, WorkAcks, Batches, "KV_" + Checkpoints} {
					if server.SubjectsCollide(s, copies+name) {
						t.Errorf("%s may copy or replace %s by %s", r.Name, name, s)
					}
				}
			}
			for _, own := range []string{"$KV.", "KV_", "dlq.", "_INBOX", WorkAcks, "$JS.EVENT."} {
				if strings.Contains(s, own) {
					t.Errorf("%s may use %s", r.Name, s)
				}
			}
		}
	}
}
