// Package deploy checks the files that Millrace is deployed with.
package deploy

import (
	"slices"
	"testing"

	"github.com/compose-spec/compose-go/v2/cli"
)

// TestCompose loads docker-compose.yml as Compose does, and holds that every
// role is in it and waits for the migrations.
func TestCompose(t *testing.T) {
	options, err := cli.NewProjectOptions([]string{"../../docker-compose.yml"},
		cli.WithEnv([]string{"CLICKHOUSE_PASSWORD=secret", "AUTH_JWT_SECRET=0123456789abcdef0123456789abcdef"}))
	if err != nil {
		t.Fatal(err)
	}
	project, err := options.LoadProject(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, role := range []string{"ingest", "projector", "query"} {
		service, err := project.GetService(role)
		if err != nil {
			t.Error(err)
			continue
		}
		if !slices.Contains(service.Command, "--role="+role) {
			t.Errorf("%s runs %q", role, service.Command)
		}
		if d, ok := service.DependsOn["migrate"]; !ok || d.Condition != "service_completed_successfully" {
			t.Errorf("%s does not wait for the migrations", role)
		}
	}
	for _, server := range []string{"nats", "clickhouse"} {
		service, err := project.GetService(server)
		if err != nil {
			t.Error(err)
			continue
		}
		if service.HealthCheck == nil || len(service.Volumes) == 0 {
			t.Errorf("%s has no health check or no volume", server)
		}
	}
}
