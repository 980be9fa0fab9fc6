//go:build unix

package deploy

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	apps "k8s.io/api/apps/v1"
	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"
)

// manifests is one file, decoded.
type manifests struct {
	services []*core.Service
	budgets  []*policy.PodDisruptionBudget
	networks []*networking.NetworkPolicy
	set      *apps.StatefulSet
	deploy   *apps.Deployment
	job      *batch.Job
}

// decode reads a file strictly: a field that the API does not know, or that stands there twice, is
// an error.
func decode(t *testing.T, name string) (m manifests) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("kubernetes", name))
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range bytes.Split(text, []byte("\n---\n")) {
		var kind meta.TypeMeta
		if err := yaml.Unmarshal(part, &kind); err != nil {
			t.Fatal(err)
		}
		var into any
		switch kind.APIVersion + " " + kind.Kind {
		case "v1 Service":
			m.services = append(m.services, new(core.Service))
			into = m.services[len(m.services)-1]
		case "policy/v1 PodDisruptionBudget":
			m.budgets = append(m.budgets, new(policy.PodDisruptionBudget))
			into = m.budgets[len(m.budgets)-1]
		case "networking.k8s.io/v1 NetworkPolicy":
			m.networks = append(m.networks, new(networking.NetworkPolicy))
			into = m.networks[len(m.networks)-1]
		case "apps/v1 StatefulSet":
			m.set = new(apps.StatefulSet)
			into = m.set
		case "apps/v1 Deployment":
			m.deploy = new(apps.Deployment)
			into = m.deploy
		case "batch/v1 Job":
			m.job = new(batch.Job)
			into = m.job
		default:
			t.Fatalf("%s: %s %s is not expected", name, kind.APIVersion, kind.Kind)
		}
		if err := yaml.UnmarshalStrict(part, into); err != nil {
			t.Errorf("%s: %s: %v", name, kind.Kind, err)
		}
	}
	return m
}

func TestTheStatefulSetKeepsItsFleet(t *testing.T) {
	m := decode(t, "statefulset.yaml")
	if m.set == nil {
		t.Fatal("there is no StatefulSet")
	}
	spec := m.set.Spec
	if spec.PodManagementPolicy != apps.ParallelPodManagement {
		t.Error("the first pod would wait for the second, which is never started")
	}
	if m.named(spec.ServiceName) == nil {
		t.Errorf("there is no service %q", spec.ServiceName)
	}
	if *spec.Replicas < 3 {
		t.Error("fewer than three do not survive the loss of one")
	}
	pod := spec.Template.Spec
	mount := pod.Containers[0].VolumeMounts
	if len(spec.VolumeClaimTemplates) != 1 || len(mount) != 1 || mount[0].Name != spec.VolumeClaimTemplates[0].Name {
		t.Error("the volume is not mounted")
	} else if dir := value(pod, "HOLDFAST_DATA_DIR"); !strings.HasPrefix(dir, mount[0].MountPath+"/") {
		t.Errorf("the data directory %s is not on the volume", dir)
	}
	if pod.SecurityContext.FSGroup == nil {
		t.Error("the process may not write to its volume")
	}
	m.check(t, spec.Template, spec.Selector)
}

func TestTheDeploymentKeepsItsFleet(t *testing.T) {
	m := decode(t, "deployment.yaml")
	if m.deploy == nil {
		t.Fatal("there is no Deployment")
	}
	spec := m.deploy.Spec
	update := spec.Strategy.RollingUpdate
	if update == nil || *update.MaxUnavailable != intstr.FromInt32(0) || update.MaxSurge.IntValue() < 1 {
		t.Error("an old pod would be told to leave before a new one has its place")
	}
	if value(spec.Template.Spec, "HOLDFAST_DATA_DIR") != "" {
		t.Error("pods of a Deployment have no directory of their own")
	}
	if pods := int(*spec.Replicas) + update.MaxSurge.IntValue(); 2*bootstrap(t, spec.Template.Spec) <= pods {
		t.Errorf("%d new pods of %d could found a second group", bootstrap(t, spec.Template.Spec), pods)
	}
	m.check(t, spec.Template, spec.Selector)
}

// The job recovers the directory of a pod of the set, under its user, by a command line that the program takes.
func TestTheRecoveryIsOfAVolumeOfTheStatefulSet(t *testing.T) {
	set, job := decode(t, "statefulset.yaml").set, decode(t, "recover.yaml").job
	if set == nil || job == nil {
		t.Fatal("there is no StatefulSet or no Job")
	}
	of, pod := set.Spec.Template.Spec, job.Spec.Template.Spec
	if !reflect.DeepEqual(of.SecurityContext, pod.SecurityContext) {
		t.Error("the job does not run as the pods do: they could not read what it writes")
	}
	if set.Spec.Selector.MatchLabels["app"] == job.Spec.Template.Labels["app"] {
		t.Error("the services would name the job's pod as one of the fleet")
	}
	if job.Spec.BackoffLimit == nil || *job.Spec.BackoffLimit != 0 || pod.RestartPolicy != core.RestartPolicyNever {
		t.Error("a recovery that was refused would be run again")
	}
	claim := set.Spec.VolumeClaimTemplates[0].Name + "-" + set.Name + "-0"
	if got := pod.Volumes[0].PersistentVolumeClaim.ClaimName; got != claim {
		t.Errorf("the job mounts %s, and the first pod %s", got, claim)
	}
	c := pod.Containers[0]
	if c.Image != of.Containers[0].Image || c.VolumeMounts[0].Name != pod.Volumes[0].Name ||
		c.VolumeMounts[0].MountPath != of.Containers[0].VolumeMounts[0].MountPath {
		t.Errorf("the job does not see the volume as the pods do: %+v", c.VolumeMounts)
	}
	if !slices.Contains(c.Command, value(of, "HOLDFAST_DATA_DIR")) {
		t.Errorf("%q is not about the pods' directory", c.Command)
	}
	page, err := os.ReadFile(filepath.Join("..", "docs", "cli.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n### "+c.Command[1]+"\n")
	section, _, _ = strings.Cut(section, "\n### ")
	for _, arg := range c.Command[2:] {
		if strings.HasPrefix(arg, "--") && !strings.Contains(section, arg+" ") {
			t.Errorf("%s has no %s", c.Command[1], arg)
		}
	}
	image, err := os.ReadFile(filepath.Join("..", "examples", "webservice", "Dockerfile"))
	if err != nil || !strings.Contains(string(image), " "+c.Command[0]+"\n") {
		t.Errorf("the image has no %s: %v", c.Command[0], err)
	}
}

// Pods with empty volumes that met before the recovered one ran founded a group beside it, and a second recovery
// found the job of the first, complete, and deleted the volumes.
func TestTheRecoveredPodIsReadyBeforeOthersStart(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("kubernetes", "recover.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	rest := string(text)
	for _, step := range []string{
		"--replicas=0", "delete job webservice-recover --ignore-not-found", "create -f", "logs job", "delete pvc", "--replicas=1",
		"wait --for=condition=Ready", "pod/webservice-0", "--replicas=3",
	} {
		var found bool
		if _, rest, found = strings.Cut(rest, step); !found {
			t.Fatalf("%q does not follow the step before it", step)
		}
	}
}

// A ClusterIP service has one address, of one pod at a time, and another port: no figure of the fleet came.
func TestPrometheusIsToldOfEachPod(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("prometheus", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	name := regexp.MustCompile(`dns_sd_configs: \[\{names: \[([a-z-]+)\.[a-z]+\.svc\], type: A, port: 8080\}\]`).FindSubmatch(text)
	if name == nil {
		t.Fatal("there is no such example")
	}
	for _, file := range []string{"statefulset.yaml", "deployment.yaml"} {
		if s := decode(t, file).named(string(name[1])); s == nil || s.Spec.ClusterIP != core.ClusterIPNone {
			t.Errorf("%s: %s is no headless service", file, name[1])
		}
	}
}

// check is what both have in common.
func (m manifests) check(t *testing.T, template core.PodTemplateSpec, selector *meta.LabelSelector) {
	t.Helper()
	pods := labels.Set(template.Labels)
	selects := func(what string, s *meta.LabelSelector) {
		if by, err := meta.LabelSelectorAsSelector(s); err != nil || by.Empty() || !by.Matches(pods) {
			t.Errorf("%s does not select the pods: %v", what, err)
		}
	}
	selects("the workload", selector)
	if len(m.budgets) != 1 || m.budgets[0].Spec.MaxUnavailable.IntValue() != 1 {
		t.Error("there is no budget of one pod at a time")
	} else {
		selects("the budget", m.budgets[0].Spec.Selector)
	}
	for _, constraint := range template.Spec.TopologySpreadConstraints {
		selects("a spread constraint", constraint.LabelSelector)
	}
	for _, n := range m.networks {
		selects("the network policy", &n.Spec.PodSelector)
		checkPolicy(t, n)
	}
	for _, s := range m.services {
		if by := labels.Set(s.Spec.Selector).AsSelector(); by.Empty() || !by.Matches(pods) {
			t.Errorf("service %s does not select the pods", s.Name)
		}
	}
	m.checkNodes(t, template.Spec)
	checkPod(t, template.Spec)
}

// checkNodes looks at the service by which nodes find each other.
func (m manifests) checkNodes(t *testing.T, pod core.PodSpec) {
	t.Helper()
	join := value(pod, "HOLDFAST_JOIN")
	host, port, _ := strings.Cut(strings.TrimPrefix(join, "dns+"), ":")
	s := m.named(host)
	if s == nil {
		t.Fatalf("there is no service for %s", join)
	}
	if s.Spec.ClusterIP != core.ClusterIPNone || !s.Spec.PublishNotReadyAddresses {
		t.Errorf("service %s does not name all pods from their start on", host)
	}
	if bind := value(pod, "HOLDFAST_BIND"); !strings.HasSuffix(bind, ":"+port) {
		t.Errorf("nodes are sought at %s and listen at %s", join, bind)
	}
	want := intstr.Parse(port).IntVal
	for _, protocol := range []core.Protocol{core.ProtocolTCP, core.ProtocolUDP} {
		if !slices.ContainsFunc(pod.Containers[0].Ports, func(p core.ContainerPort) bool {
			return p.ContainerPort == want && p.Protocol == protocol &&
				slices.ContainsFunc(s.Spec.Ports, func(of core.ServicePort) bool {
					return of.Port == want && of.Protocol == protocol && of.TargetPort == intstr.FromString(p.Name)
				})
		}) {
			t.Errorf("port %s is not open for %s", port, protocol)
		}
	}
}

func checkPolicy(t *testing.T, n *networking.NetworkPolicy) {
	t.Helper()
	open := make(map[string]bool)
	for _, rule := range n.Spec.Ingress {
		for _, p := range rule.Ports {
			open[string(*p.Protocol)+" "+p.Port.String()] = len(rule.From) == 0
		}
	}
	for _, port := range []string{"TCP 7643", "UDP 7643"} {
		if everybody, ok := open[port]; !ok || everybody {
			t.Errorf("the network policy does not keep %s for the fleet", port)
		}
	}
}

func checkPod(t *testing.T, pod core.PodSpec) {
	t.Helper()
	c := pod.Containers[0]
	text := program(t)
	for _, probe := range []*core.Probe{c.ReadinessProbe, c.LivenessProbe} {
		if probe == nil || !strings.Contains(text, `"GET `+probe.HTTPGet.Path+`"`) {
			t.Fatalf("the program does not answer a probe: %+v", probe)
		}
	}
	zone := value(pod, "HOLDFAST_ZONE")
	for _, env := range c.Env {
		part := "$(" + env.Name + ")"
		switch {
		case strings.Contains(zone, part): // the cluster replaces it, as it stands above
			zone = strings.Replace(zone, part, "", 1)
		case env.Name == "HOLDFAST_ZONE" && zone != "/":
			t.Errorf("of the zone %q is left, a variable that stands below or nowhere", zone)
		case !strings.Contains(text, `"`+env.Name+`"`):
			t.Errorf("the program does not read %s", env.Name)
		}
		if secret := env.ValueFrom; strings.Contains(env.Name, "SECRET") && (secret == nil || secret.SecretKeyRef == nil) {
			t.Errorf("%s is no reference to a secret", env.Name)
		}
	}
	if n := bootstrap(t, pod); n < 3 {
		t.Errorf("Bootstrap is %d", n)
	}
	// The program's own bounds, and the time until no requests come any more.
	need := seconds(t, text, "requestTime") + seconds(t, text, "leaveTime") + int64(c.Lifecycle.PreStop.Sleep.Seconds) + 15
	if grace := pod.TerminationGracePeriodSeconds; grace == nil || *grace < need {
		t.Errorf("the pod may be killed before it has left: %d s are needed", need)
	}
	if _, limited := c.Resources.Limits[core.ResourceCPU]; limited {
		t.Error("a throttled voter loses its place")
	}
}

// program is the source of what the manifests run.
func program(t *testing.T) (text string) {
	t.Helper()
	for _, name := range []string{"main.go", "config.go"} {
		b, err := os.ReadFile(filepath.Join("..", "examples", "webservice", name))
		if err != nil {
			t.Fatal(err)
		}
		text += string(b)
	}
	return text
}

// seconds is a constant of the program.
func seconds(t *testing.T, text, name string) int64 {
	t.Helper()
	m := regexp.MustCompile(name + `\s*= (\d+) \* time.Second`).FindStringSubmatch(text)
	if m == nil {
		t.Fatalf("the program has no %s", name)
	}
	return int64(intstr.Parse(m[1]).IntVal)
}

func bootstrap(t *testing.T, pod core.PodSpec) int {
	t.Helper()
	n, err := strconv.Atoi(value(pod, "HOLDFAST_BOOTSTRAP"))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func value(pod core.PodSpec, name string) string {
	for _, env := range pod.Containers[0].Env {
		if env.Name == name {
			return env.Value
		}
	}
	return ""
}

func (m manifests) named(name string) *core.Service {
	for _, s := range m.services {
		if s.Name == name {
			return s
		}
	}
	return nil
}

// The decoder is strict, or the tests above show nothing.
func TestAMisspelledFieldIsFound(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("kubernetes", "statefulset.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range bytes.Split(text, []byte("\n---\n")) {
		if !bytes.Contains(part, []byte("kind: StatefulSet")) {
			continue
		}
		broken := bytes.Replace(part, []byte("podManagementPolicy"), []byte("podManagmentPolicy"), 1)
		if err := yaml.UnmarshalStrict(broken, new(apps.StatefulSet)); err == nil {
			t.Error("a misspelled field is taken")
		}
	}
}
