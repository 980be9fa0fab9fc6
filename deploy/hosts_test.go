//go:build unix

package deploy

import (
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"
)

const composeFile = "../examples/webservice/compose.yaml"

// compose loads the file as docker compose does: unknown fields are errors.
func compose(t *testing.T, text string) (*types.Project, error) {
	t.Helper()
	dir, err := filepath.Abs(filepath.Dir(composeFile))
	if err != nil {
		t.Fatal(err)
	}
	return loader.LoadWithContext(t.Context(), types.ConfigDetails{
		WorkingDir:  dir,
		ConfigFiles: []types.ConfigFile{{Filename: filepath.Join(dir, "compose.yaml"), Content: []byte(text)}},
		Environment: types.Mapping{"HOLDFAST_SECRETS": "x"},
	}, func(o *loader.Options) { o.SetProjectName("webservice", true) })
}

func TestTheComposeFileMakesAFleet(t *testing.T) {
	text, err := os.ReadFile(composeFile)
	if err != nil {
		t.Fatal(err)
	}
	project, err := compose(t, string(text))
	if err != nil {
		t.Fatal(err)
	}
	if len(project.Services) != 3 {
		t.Errorf("%d services", len(project.Services))
	}
	source := program(t)
	volumes := make(map[string]bool)
	for name, s := range project.Services {
		get := func(name string) string {
			if v := s.Environment[name]; v != nil {
				return *v
			}
			return ""
		}
		for variable := range s.Environment {
			if !strings.Contains(source, `"`+variable+`"`) {
				t.Errorf("%s: the program does not read %s", name, variable)
			}
		}
		host, _, _ := strings.Cut(strings.TrimPrefix(get("HOLDFAST_JOIN"), "dns+"), ":")
		if net := s.Networks["default"]; net == nil || len(net.Aliases) != 1 || net.Aliases[0] != host {
			t.Errorf("%s does not answer to %s", name, host)
		}
		if len(s.Volumes) != 1 || volumes[s.Volumes[0].Source] || s.Volumes[0].Target != path.Dir(get("HOLDFAST_DATA_DIR")) {
			// The program may write in the volume alone: the file of "webservice leave" is beside the directory.
			t.Errorf("%s has no volume of its own with the data directory in it: %+v", name, s.Volumes)
		} else {
			volumes[s.Volumes[0].Source] = true
		}
		if s.StopGracePeriod == nil || time.Duration(*s.StopGracePeriod) < 55*time.Second {
			t.Errorf("%s may be killed before it has left", name)
		}
		if get("HOLDFAST_SECRETS") != "x" || get("HOLDFAST_BOOTSTRAP") != "3" {
			t.Errorf("%s: %v", name, s.Environment)
		}
		if _, err := os.Stat(filepath.Join(s.Build.Context, s.Build.Dockerfile)); err != nil {
			t.Error(err)
		}
	}
	if _, err := compose(t, strings.Replace(string(text), "stop_grace_period", "stop_grace_perid", 1)); err == nil {
		t.Error("a misspelled field is taken")
	}
}

// What the Dockerfile builds and copies is there.
func TestTheDockerfileNamesWhatExists(t *testing.T) {
	text, err := os.ReadFile("../examples/webservice/Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range regexp.MustCompile(`\./[\w/]+`).FindAllString(string(text), -1) {
		if _, err := os.Stat(filepath.Join("..", name)); err != nil && name != "./" {
			t.Error(err)
		}
	}
	mod, err := os.ReadFile("../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	version := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(string(mod))
	if version == nil || !strings.Contains(string(text), "FROM golang:"+version[1]+" ") {
		t.Errorf("the Dockerfile does not build with Go %v", version)
	}
}

func TestSystemdAcceptsTheUnit(t *testing.T) {
	text, err := os.ReadFile("systemd/webservice.service")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`(?m)^#?\s*(?:Environment=)?(HOLDFAST_\w+)=`).FindAllStringSubmatch(string(text), -1) {
		if !strings.Contains(program(t), `"`+m[1]+`"`) {
			t.Errorf("the program does not read %s", m[1])
		}
	}
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("systemd-analyze is not installed")
	}
	// It wants the program to be there.
	unit := filepath.Join(t.TempDir(), "webservice.service")
	installed := strings.Replace(string(text), "ExecStart=/usr/local/bin/webservice", "ExecStart=/bin/true", 1)
	if err := os.WriteFile(unit, []byte(installed), 0o600); err != nil {
		t.Fatal(err)
	}
	verify := func() string {
		out, err := exec.Command(analyze, "verify", "--man=no", unit).CombinedOutput()
		text := string(out)
		if err != nil {
			text += err.Error()
		}
		return strings.TrimSpace(text)
	}
	if said := verify(); said != "" {
		t.Errorf("systemd-analyze says %s", said)
	}
	if err := os.WriteFile(unit, []byte(strings.Replace(installed, "TimeoutStopSec=60s", "TimeoutStopSec=soon", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if verify() == "" {
		t.Error("systemd-analyze takes anything here")
	}
}
