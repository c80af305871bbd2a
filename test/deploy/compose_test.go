// Package deploy checks the files that Millrace is deployed with.
package deploy

import (
	"maps"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
	"github.com/nats-io/nats-server/v2/server"
	"gopkg.in/yaml.v3"
)

// loadCompose loads docker-compose.yml as Compose does.
func loadCompose(t *testing.T) *types.Project {
	t.Helper()
	options, err := cli.NewProjectOptions([]string{"../../docker-compose.yml"}, cli.WithEnv([]string{
		"CLICKHOUSE_PASSWORD=secret", "POSTGRES_PASSWORD=secret", "GRAFANA_PASSWORD=secret",
		"AUTH_JWT_SECRET=0123456789abcdef0123456789abcdef",
		// Digits and an exponent, which is how hex may look.
		"NATS_ROUTE_PASSWORD=123456", "NATS_MILLRACE_PASSWORD=1e9", "NATS_PRODUCER_PASSWORD=2e9", "NATS_SOURCES_PASSWORD=6e9",
		"NATS_WORKER_PASSWORD=3k",
		"NATS_READER_PASSWORD=4m", "NATS_OPERATOR_PASSWORD=5", "NATS_ANALYSER_PASSWORD=7",
	}))
	if err != nil {
		t.Fatal(err)
	}
	project, err := options.LoadProject(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return project
}

func service(t *testing.T, project *types.Project, name string) types.ServiceConfig {
	t.Helper()
	s, err := project.GetService(name)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestComposeRoles holds that every role runs, waits for the migrations, and
// is asked for its health.
func TestComposeRoles(t *testing.T) {
	project := loadCompose(t)
	for _, role := range []string{"ingest", "projector", "query"} {
		s := service(t, project, role)
		if !slices.Contains(s.Command, "--role="+role) {
			t.Errorf("%s runs %q", role, s.Command)
		}
		if d, ok := s.DependsOn["migrate"]; !ok || d.Condition != types.ServiceConditionCompletedSuccessfully {
			t.Errorf("%s does not wait for the migrations", role)
		}
		if s.HealthCheck == nil || !slices.Contains(s.HealthCheck.Test, "health") {
			t.Errorf("%s is not asked for its health", role)
		}
		for _, name := range []string{
			"MILLRACE_NATS_URL", "MILLRACE_CLICKHOUSE_DSN", "MILLRACE_POSTGRES_DSN",
			"AUTH_JWT_SECRET",
		} {
			if v := s.Environment[name]; v == nil || *v == "" {
				t.Errorf("%s lacks %s", role, name)
			}
		}
	}
}

// TestComposeServers holds that servers keep their data, are healthy before
// something needs them, and that no port is open to other machines.
func TestComposeServers(t *testing.T) {
	project := loadCompose(t)
	migrate := service(t, project, "migrate")
	for _, name := range []string{"nats-1", "nats-2", "nats-3", "clickhouse", "postgres", "prometheus", "grafana"} {
		s := service(t, project, name)
		if s.HealthCheck == nil || !slices.ContainsFunc(s.Volumes, func(v types.ServiceVolumeConfig) bool {
			return v.Type == types.VolumeTypeVolume
		}) {
			t.Errorf("%s has no health check or no volume", name)
		}
		if d, ok := migrate.DependsOn[name]; name != "prometheus" && name != "grafana" &&
			(!ok || d.Condition != types.ServiceConditionHealthy) {
			t.Errorf("the migrations do not wait for %s", name)
		}
	}
	for name, s := range project.Services {
		for _, p := range s.Ports {
			if p.HostIP != "127.0.0.1" {
				t.Errorf("%s listens on %s:%s", name, p.HostIP, p.Published)
			}
		}
		for _, v := range s.Volumes {
			if v.Type != types.VolumeTypeBind {
				continue
			}
			if _, err := os.Stat(v.Source); err != nil {
				t.Errorf("%s mounts %s: %v", name, v.Source, err)
			}
		}
	}
}

// TestComposeClickHouse: the server has the release of the engine that the tests run on.
func TestComposeClickHouse(t *testing.T) {
	text, err := os.ReadFile("../../internal/embedded/engines/package.json")
	if err != nil {
		t.Fatal(err)
	}
	var engines struct {
		Packages map[string]string `yaml:"optionalDependencies"`
	}
	if err := yaml.Unmarshal(text, &engines); err != nil {
		t.Fatal(err)
	}
	release := strings.Join(strings.SplitN(engines.Packages["@chdb/lib-linux-x64-gnu"], ".", 3)[:2], ".")
	if image := service(t, loadCompose(t), "clickhouse").Image; image != "clickhouse/clickhouse-server:"+release {
		t.Errorf("the image is %s, the engine's release is %s", image, release)
	}
}

// TestComposeConfines: each container has limits and as few rights as it can do with. What
// starts as root to take over its volume keeps a writable image, and nothing else.
func TestComposeConfines(t *testing.T) {
	project := loadCompose(t)
	for name, s := range project.Services {
		if s.MemLimit == 0 || s.CPUS == 0 || s.PidsLimit == 0 {
			t.Errorf("%s has no limits: %d bytes, %v processors, %d processes", name, s.MemLimit, s.CPUS, s.PidsLimit)
		}
		if !slices.Equal(s.CapDrop, []string{"ALL"}) || !slices.Contains(s.SecurityOpt, "no-new-privileges:true") {
			t.Errorf("%s may do more than it has to", name)
		}
		asRoot := name == "clickhouse" || name == "postgres"
		if s.ReadOnly == asRoot || (len(s.CapAdd) > 0) != asRoot {
			t.Errorf("%s: read-only %t, with the rights %v", name, s.ReadOnly, s.CapAdd)
		}
	}
}

// TestComposeIsWatched: Prometheus finds the roles, the servers and Alertmanager, by names and
// ports that exist.
func TestComposeIsWatched(t *testing.T) {
	project := loadCompose(t)
	var config struct {
		Alerting struct {
			Alertmanagers []struct {
				Static []struct{ Targets []string } `yaml:"static_configs"`
			}
		}
		Scrapes []struct {
			Job    string                       `yaml:"job_name"`
			Static []struct{ Targets []string } `yaml:"static_configs"`
		} `yaml:"scrape_configs"`
	}
	text, err := os.ReadFile("../../deploy/prometheus/prometheus.yml")
	if err == nil {
		err = yaml.Unmarshal(text, &config)
	}
	if err != nil {
		t.Fatal(err)
	}
	targets := map[string]int{}
	find := func(job string, list []string) {
		for _, target := range list {
			host, port, _ := strings.Cut(target, ":")
			service(t, project, host)
			if port != watched[job] {
				t.Errorf("%s is asked at port %s", target, port)
			}
			targets[job]++
		}
	}
	for _, s := range config.Scrapes {
		for _, static := range s.Static {
			find(s.Job, static.Targets)
		}
	}
	for _, a := range config.Alerting.Alertmanagers {
		for _, static := range a.Static {
			find("alertmanager", static.Targets)
		}
	}
	want := map[string]int{"millrace": 3, "nats": 3, "clickhouse": 1, "postgres": 1, "alertmanager": 1}
	if !maps.Equal(targets, want) {
		t.Errorf("targets %v, want %v", targets, want)
	}
}

// watched is at which port each kind of server tells of itself.
var watched = map[string]string{
	"millrace": "8075", "nats": "7777", "clickhouse": "9363", "postgres": "9187", "alertmanager": "9093",
}

// natsOptions has the server itself read its configuration, with the
// environment that Compose gives one of them.
func natsOptions(t *testing.T, name string) *server.Options {
	t.Helper()
	for variable, value := range service(t, loadCompose(t), name).Environment {
		t.Setenv(variable, *value)
	}
	opts, err := server.ProcessConfigFile("../../deploy/nats.conf")
	if err != nil {
		t.Fatal(err)
	}
	return opts
}

// TestNATSConfig: the servers find each other, and Millrace finds them.
func TestNATSConfig(t *testing.T) {
	urls := *service(t, loadCompose(t), "ingest").Environment["MILLRACE_NATS_URL"]
	for _, name := range []string{"nats-1", "nats-2", "nats-3"} {
		opts := natsOptions(t, name)
		if opts.ServerName != name || !opts.SyncAlways || opts.MaxPayload != 8<<20 || opts.StoreDir != "/data" ||
			len(opts.Routes) != 3 {
			t.Errorf("%s: %+v", name, opts)
		}
		known := slices.ContainsFunc(opts.Routes, func(r *url.URL) bool {
			password, _ := r.User.Password()
			return r.Hostname() == name && password == opts.Cluster.Password && password != ""
		})
		millrace := slices.IndexFunc(opts.Users, func(u *server.User) bool { return u.Username == "millrace" })
		login := "nats://millrace:" + opts.Users[millrace].Password + "@" + name + ":4222"
		if !known || !slices.Contains(strings.Split(urls, ","), login) {
			t.Errorf("nobody looks for %s in %s", name, urls)
		}
		if opts.HTTPHost != "127.0.0.1" || opts.NoAuthUser != "" {
			t.Errorf("%s is open to who has no login", name)
		}
	}
}
