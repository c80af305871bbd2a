package deploy

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// manifests are what Kustomize makes of deploy/kubernetes, by kind and name.
type manifests map[string]any

// kinds holds what each manifest is decoded into. An unknown field is an error.
var kinds = map[string]func() any{
	"Namespace":           func() any { return new(corev1.Namespace) },
	"ConfigMap":           func() any { return new(corev1.ConfigMap) },
	"Service":             func() any { return new(corev1.Service) },
	"Deployment":          func() any { return new(appsv1.Deployment) },
	"StatefulSet":         func() any { return new(appsv1.StatefulSet) },
	"PodDisruptionBudget": func() any { return new(policyv1.PodDisruptionBudget) },
	"Ingress":             func() any { return new(networkingv1.Ingress) },
	"NetworkPolicy":       func() any { return new(networkingv1.NetworkPolicy) },
	"Job":                 func() any { return new(batchv1.Job) },

	"HorizontalPodAutoscaler": func() any { return new(autoscalingv2.HorizontalPodAutoscaler) },
	"ServiceMonitor":          func() any { return new(serviceMonitor) },
}

// build runs Kustomize in a folder that uses the base and the component.
func build(t *testing.T) manifests {
	t.Helper()
	fs := filesys.MakeFsInMemory()
	root := "../../deploy/kubernetes"
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return fs.WriteFile(filepath.Join("/base", strings.TrimPrefix(path, root)), text)
	})
	if err == nil {
		err = fs.WriteFile("/own/kustomization.yaml",
			[]byte("resources: [../base]\nnamespace: millrace\n"+
				"components: [../base/ingress, ../base/autoscaling, ../base/monitoring]\n"))
	}
	if err != nil {
		t.Fatal(err)
	}
	made, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(fs, "/own")
	if err != nil {
		t.Fatal(err)
	}
	all := manifests{}
	for _, r := range made.Resources() {
		text, err := r.AsYAML()
		if err != nil {
			t.Fatal(err)
		}
		decode := kinds[r.GetKind()]
		if decode == nil {
			t.Fatalf("%s %s: no such kind is expected", r.GetKind(), r.GetName())
		}
		into := decode()
		if err := yaml.UnmarshalStrict(text, into); err != nil {
			t.Errorf("%s %s: %v", r.GetKind(), r.GetName(), err)
		}
		if ns := r.GetNamespace(); ns != "millrace" && r.GetKind() != "Namespace" {
			t.Errorf("%s %s is in the namespace %q", r.GetKind(), r.GetName(), ns)
		}
		all[r.GetKind()+"/"+r.GetName()] = into
	}
	return all
}

// one returns a manifest.
func one[T any](t *testing.T, all manifests, name string) T {
	t.Helper()
	v, ok := all[name].(T)
	if !ok {
		t.Fatalf("there is no %s", name)
	}
	return v
}

// TestKubernetes holds that what is applied is valid, that every role has
// probes, a budget, requests and limits, and that names meet.
func TestKubernetes(t *testing.T) {
	all := build(t)
	pods := map[string]corev1.PodTemplateSpec{
		"ingest":    one[*appsv1.Deployment](t, all, "Deployment/ingest").Spec.Template,
		"query":     one[*appsv1.Deployment](t, all, "Deployment/query").Spec.Template,
		"projector": one[*appsv1.StatefulSet](t, all, "StatefulSet/projector").Spec.Template,
	}
	for role, pod := range pods {
		t.Run(role, func(t *testing.T) {
			c := pod.Spec.Containers[0]
			if !slices.Contains(c.Args, "--role="+role) {
				t.Errorf("it runs %q", c.Args)
			}
			for name, p := range map[string]*corev1.Probe{
				"startup": c.StartupProbe, "liveness": c.LivenessProbe,
				"readiness": c.ReadinessProbe,
			} {
				if p == nil || p.HTTPGet == nil || p.HTTPGet.Port.StrVal != c.Ports[0].Name ||
					!slices.Contains([]string{"/health", "/ready"}, p.HTTPGet.Path) {
					t.Errorf("%s probe: %+v", name, p)
				}
			}
			if c.LivenessProbe.HTTPGet.Path != "/health" {
				t.Error("it is killed when others are away")
			}
			memory := c.Resources.Limits.Memory().Value()
			if c.Resources.Limits.Cpu().IsZero() || c.Resources.Requests.Cpu().IsZero() ||
				c.Resources.Requests.Memory().IsZero() || memory == 0 {
				t.Errorf("resources %+v", c.Resources)
			}
			if limit := goLimit(t, c); limit <= 0 || limit >= memory {
				t.Errorf("the collector is told of %d bytes of %d", limit, memory)
			}
			if s := c.SecurityContext; s == nil || s.AllowPrivilegeEscalation == nil || *s.AllowPrivilegeEscalation ||
				!*s.ReadOnlyRootFilesystem || !*pod.Spec.SecurityContext.RunAsNonRoot {
				t.Error("it may do more than it has to")
			}
			budget := one[*policyv1.PodDisruptionBudget](t, all, "PodDisruptionBudget/"+role)
			service := one[*corev1.Service](t, all, "Service/"+role)
			for what, selector := range map[string]map[string]string{
				"budget":  budget.Spec.Selector.MatchLabels,
				"service": service.Spec.Selector,
			} {
				for key, value := range selector {
					if pod.Labels[key] != value {
						t.Errorf("the %s does not select the pods: %v, %v", what, selector, pod.Labels)
					}
				}
			}
			config := one[*corev1.ConfigMap](t, all, "ConfigMap/"+c.EnvFrom[0].ConfigMapRef.Name)
			if config.Data["MILLRACE_HTTP_ADDR"] != fmt.Sprintf("0.0.0.0:%d", c.Ports[0].ContainerPort) {
				t.Errorf("it listens on %s", config.Data["MILLRACE_HTTP_ADDR"])
			}
		})
	}
	ingress := one[*networkingv1.Ingress](t, all, "Ingress/millrace").Spec
	for _, rule := range ingress.Rules {
		if len(ingress.TLS) != 1 || !slices.Contains(ingress.TLS[0].Hosts, rule.Host) {
			t.Errorf("%s is served without TLS", rule.Host)
		}
		for _, p := range rule.HTTP.Paths {
			one[*corev1.Service](t, all, "Service/"+p.Backend.Service.Name)
		}
	}
}

// TestKubernetesMigrates: a job migrates, and all others wait for it.
func TestKubernetesMigrates(t *testing.T) {
	all := build(t)
	job := one[*batchv1.Job](t, all, "Job/migrate").Spec.Template.Spec
	if c := job.Containers[0]; !slices.Equal(c.Args, []string{"migrate"}) {
		t.Errorf("it runs %q", c.Args)
	}
	for name, m := range all {
		config, ok := m.(*corev1.ConfigMap)
		if ok && config.Data["MILLRACE_AWAIT_MIGRATION"] != "true" {
			t.Errorf("%s: the roles migrate, too", name)
		}
	}
}

// TestKubernetesNetwork: the policy lets in what the services have, and out what the settings
// name by default.
func TestKubernetesNetwork(t *testing.T) {
	all := build(t)
	policy := one[*networkingv1.NetworkPolicy](t, all, "NetworkPolicy/millrace").Spec
	in := policy.Ingress[0].Ports
	for name, m := range all {
		s, ok := m.(*corev1.Service)
		if !ok {
			continue
		}
		if port := s.Spec.Ports[0]; len(in) != 1 || in[0].Port.IntVal != port.Port || port.TargetPort.StrVal != "http" {
			t.Errorf("%s: its port is closed", name)
		}
	}
	var out []int32
	for _, rule := range policy.Egress {
		for _, p := range rule.Ports {
			out = append(out, p.Port.IntVal)
		}
	}
	for _, port := range []int32{53, 4222, 9000, 5432, 4318} {
		if !slices.Contains(out, port) {
			t.Errorf("port %d of others cannot be reached", port)
		}
	}
}

// TestKubernetesScales: each autoscaler has a target that exists, and keeps as many replicas as
// the base has. Its metrics exist.
func TestKubernetesScales(t *testing.T) {
	all := build(t)
	names := metricsInCode(t)
	for _, role := range []string{"ingest", "query", "projector"} {
		spec := one[*autoscalingv2.HorizontalPodAutoscaler](t, all, "HorizontalPodAutoscaler/"+role).Spec
		replicas := int32(0)
		switch m := all[spec.ScaleTargetRef.Kind+"/"+spec.ScaleTargetRef.Name].(type) {
		case *appsv1.Deployment:
			replicas = *m.Spec.Replicas
		case *appsv1.StatefulSet:
			replicas = *m.Spec.Replicas
		}
		if *spec.MinReplicas != replicas || spec.MaxReplicas <= replicas {
			t.Errorf("%s: %d to %d replicas, and %d without the autoscaler", role, *spec.MinReplicas, spec.MaxReplicas, replicas)
		}
		for _, m := range spec.Metrics {
			if m.External != nil && !names[m.External.Metric.Name] {
				t.Errorf("%s: there is no metric %s", role, m.External.Metric.Name)
			}
		}
	}
	monitor := one[*serviceMonitor](t, all, "ServiceMonitor/millrace").Spec
	for name, m := range all {
		s, ok := m.(*corev1.Service)
		if !ok {
			continue
		}
		for label, value := range monitor.Selector.MatchLabels {
			if s.Labels[label] != value || monitor.Endpoints[0].Port != s.Spec.Ports[0].Name {
				t.Errorf("%s is not scraped", name)
			}
		}
	}
}

// serviceMonitor is what is used of the kind of Prometheus' operator.
type serviceMonitor struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Selector  metav1.LabelSelector `json:"selector"`
		JobLabel  string               `json:"jobLabel"`
		Endpoints []struct {
			Port     string `json:"port"`
			Path     string `json:"path"`
			Interval string `json:"interval"`
		} `json:"endpoints"`
	} `json:"spec"`
}

// goLimit returns GOMEMLIMIT in bytes.
func goLimit(t *testing.T, c corev1.Container) (bytes int64) {
	t.Helper()
	for _, e := range c.Env {
		if e.Name == "GOMEMLIMIT" {
			if _, err := fmt.Sscanf(e.Value, "%dMiB", &bytes); err != nil {
				t.Errorf("GOMEMLIMIT=%s: %v", e.Value, err)
			}
		}
	}
	return bytes << 20
}
