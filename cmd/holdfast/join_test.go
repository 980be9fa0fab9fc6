package main

import (
	"context"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/process"
	"github.com/holdfast-go/holdfast/internal/testkit"
)

func TestTheFleetIsNamedByFlagsOrByTheEnvironment(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1)
	dir, flags := t.TempDir(), &fleet{}
	file := write(t, filepath.Join(dir, "secrets"), "# the fleet's\n\n"+secret+"\n")
	named := []string{"--join", f.nodes[0].Addr(), "--secret-file", file, "--cluster", "cli"}
	flags.ok(t, append([]string{"status"}, named...)...)
	f.ok(t, "status")
	flags.refused(t, 2, "--join", "status")
	flags.refused(t, 2, "no such file", append(named, "status", "--secret-file", filepath.Join(dir, "none"))...)
	flags.refused(t, 2, "no secret", append(named, "status", "--secret-file", write(t, filepath.Join(dir, "empty"), "\n"))...)
	flags.refused(t, 2, "are missing", append(named, "status", "--ca", file)...)
	flags.refused(t, 69, "doctor", append(named, "status", "--cluster", "other", "--timeout", "300ms")...)
	flags.refused(t, 2, "none of table", append(named, "status", "-o", "xml")...)
	flags.refused(t, 2, "unknown command", "stats")
}

func TestTheFleetIsJoinedThroughOneForwardedPort(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1)
	forwarded := &fleet{env: append(f.env[1:len(f.env):len(f.env)], "HOLDFAST_JOIN="+forward(t, f.nodes[0].Addr()))}
	forwarded.ok(t, "run", "job", "--", "true")
}

// forward passes connections on to an address, as kubectl port-forward does.
func forward(t *testing.T, to string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	all.Go(func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			target, err := net.Dial("tcp", to)
			if err != nil {
				from.Close()
				continue
			}
			context.AfterFunc(ctx, func() { from.Close(); target.Close() })
			all.Go(func() { _, _ = io.Copy(target, from); target.Close() })
			all.Go(func() { _, _ = io.Copy(from, target); from.Close() })
		}
	})
	t.Cleanup(func() { cancel(); l.Close(); all.Wait() })
	return l.Addr().String()
}

// On an idle machine the first answer comes after some 30 ms, where 300 are asked for.
func TestTheFirstAnswerComesSoon(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1)
	best := time.Hour
	for range 5 {
		began := time.Now()
		f.ok(t, "status")
		best = min(best, time.Since(began))
	}
	t.Logf("after %v", best)
	if best > 20*time.Second {
		t.Errorf("after %v", best)
	}
}

func TestTheDoctorSaysWhichStepFails(t *testing.T) {
	t.Parallel()
	log := &transcript{}
	f := newFleet(t, 1, func(_ int, cfg *holdfast.Config) {
		cfg.Logger = slog.New(slog.NewTextHandler(process.Lines(log.add), &slog.HandlerOptions{Level: slog.LevelWarn}))
	})
	states := func(found []finding) map[string]string {
		all := make(map[string]string)
		for _, s := range found {
			if all[s.Check] == "" || s.State == "failed" {
				all[s.Check] = s.State
			}
			if (s.State == "ok") != (s.Advice == "") {
				t.Errorf("%+v: what is wrong has advice", s)
			}
		}
		return all
	}
	examine := func(env ...string) map[string]string {
		other, limit := &fleet{env: append(f.env[:len(f.env):len(f.env)], env...)}, "500ms"
		if len(env) == 0 {
			limit = patience.String()
		}
		r := other.run(t, "doctor", "-o", "json", "--timeout", limit, "--data-dir", t.TempDir())
		var found []finding
		unmarshal(t, r.out, &found)
		got := states(found)
		if failed := strings.Contains(r.out, `"failed"`); failed != (r.code == 1) {
			t.Errorf("code %d: %s", r.code, r.out)
		}
		return got
	}
	f.run(t, "doctor")
	if said := log.String(); said != "" {
		t.Errorf("a visit of the doctor worries the nodes: %s", said)
	}
	for what, test := range map[string]struct {
		env  []string
		want map[string]string
	}{
		"well":          {nil, map[string]string{"config": "ok", "names": "ok", "tcp": "ok", "udp": "ok", "seal": "ok", "fleet": "ok", "members": "ok"}},
		"a closed port": {[]string{"HOLDFAST_JOIN=127.0.0.1:1"}, map[string]string{"names": "ok", "tcp": "failed"}},
		"a wrong name":  {[]string{"HOLDFAST_JOIN=dns+no.such.host.invalid:1"}, map[string]string{"names": "failed"}},
		"other secrets": {[]string{"HOLDFAST_SECRETS=another-secret-of-the-same-length"}, map[string]string{"tcp": "ok", "seal": "failed", "fleet": "failed"}},
		"another fleet": {[]string{"HOLDFAST_CLUSTER=other"}, map[string]string{"tcp": "ok", "seal": "failed", "fleet": "failed"}},
	} {
		got := examine(test.env...)
		for check, state := range test.want {
			if got[check] != state && !(what == "well" && state == "ok" && got[check] == "warning") {
				t.Errorf("%s: %s is %q, want %q", what, check, got[check], state)
			}
		}
		if got["fsync"] == "failed" || got["clock"] == "" {
			t.Errorf("%s: %v", what, got)
		}
	}
	if out := f.run(t, "doctor").out; !strings.Contains(out, "CHECK") || !strings.Contains(out, "serves: joined in") {
		t.Errorf("it says %s", out)
	}
}

// The doctor looked at the first address alone: of a node with other secrets than the rest it said nothing.
func TestTheDoctorNamesTheNodeThatHasOtherSecretsAndTheOneThatHangs(t *testing.T) {
	t.Parallel()
	f, other := newFleet(t, 1), testkit.Fleet(t, 1, func(_ int, cfg *holdfast.Config) {
		cfg.Cluster, cfg.Secrets = "cli", []string{"another-secret-of-the-same-length"}
	})
	hangs, err := net.Listen("tcp", "127.0.0.1:0") // and nobody accepts
	if err != nil {
		t.Fatal(err)
	}
	defer hangs.Close()
	own, strange, silent := f.nodes[0].Addr(), other[0].Addr(), hangs.Addr().String()
	r := f.run(t, "doctor", "-o", "json", "--timeout", "5s", "--join", own+","+strange+","+silent)
	var found []finding
	unmarshal(t, r.out, &found)
	got := make(map[string]string)
	for _, s := range found {
		for _, addr := range []string{own, strange, silent} {
			if s.Check == "seal" && strings.Contains(s.Detail, addr) {
				got[addr] += s.State + s.Advice
			}
		}
	}
	if got[own] != "ok" || !strings.Contains(got[strange], "failedThe node has other secrets") || !strings.Contains(got[silent], "hangs") || r.code != 1 {
		t.Errorf("code %d: %s", r.code, r.out)
	}
}
