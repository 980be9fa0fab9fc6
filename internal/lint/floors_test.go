package lint

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/holdfast-go/holdfast"

// pkg is what go list says of one package.
type pkg struct {
	ImportPath, Name, Dir string
	Standard              bool
	Imports, Deps         []string
	GoFiles               []string
}

// rel is the path in the module; "." is the root, "" is no package of this module.
func rel(path string) string {
	if path == module {
		return "."
	}
	below, ok := strings.CutPrefix(path, module+"/")
	if !ok {
		return ""
	}
	return below
}

// floor is the floor of one of our packages and of those below its path. Our own are a multiple of
// ten; one in between stands on packages of the floor below it.
func floor(path string) (int, bool) {
	floors := map[string]int{
		"internal/fdreserve":           5,  // transport stands on it
		"internal/servers":             11, // databases for tests and examples: they pause as internal/loop does
		"internal/servers/serverstest": 12,
		"internal/tally":               5, "internal/process": 5, "internal/process/processtest": 6, "internal/chart": 5, "internal/sparse": 5,
		"fsm": 10, "transport": 10, "fence": 10,
		"internal/loop": 10, "internal/feed": 15, // of fsm's events
		"internal/lease":   18, // the others of its floor use its Instant
		"internal/forming": 20, "internal/autopilot": 22, "internal/session": 20, "internal/batch": 20,
		"internal/retry": 20, "internal/health": 20, "internal/expiry": 20, // its table is passive, and run by internal/model
		"internal/consensus": 30, "internal/membership": 30, "internal/clock": 30, "internal/datadir": 30,
		"internal/member": 10, "internal/seam": 25, // what crosses is fsm's, the members that gossip sees, and errors
		// The rooms of the group, each on those before it.
		"internal/consensus/report":  25, // what the group tells: those without a replica import it, too
		"internal/consensus/preinit": 26, "internal/consensus/engine": 27, "internal/consensus/store": 28, "internal/consensus/wire": 29,
		"internal/backup":   15,                                              // of fsm's state
		"internal/recovery": 37,                                              // offline: reads a directory and makes another
		"internal/proposer": 35,                                              // knows the report of internal/consensus
		"internal/simenv":   35,                                              // carries a clock and a data directory
		"internal/node":     38,                                              // stands on all of these, and knows nothing of the API
		"internal/link":     12, "internal/serve": 36, "internal/client": 37, // a node without a replica
		"internal/client/clienttest": 40, // a client for tests
		"internal/seam/seamtest":     39, // a node for tests, which ends as that of internal/node does
		".":                          40,
		"sim":                        45, // imports the root
		"holdfasttest":               45, // likewise
		"httpstatus":                 45, // likewise: a program that imports the root links no page
		"internal/view":              42, // what httpstatus and cmd/holdfast show
		"examples/internal":          48,
		"examples":                   50, "cmd": 50, "bench": 50, "contrib": 50, "e2e": 50,
		"internal/lint":                 0,  // imports none
		"internal/frozen":               0,  // imports none: tests of all floors compare golden files by it
		"internal/testlog":              0,  // imports none: tests of all floors keep log lines in it
		"internal/contract":             47, // tests alone, of what the root promises
		"internal/testkit":              46, // opens fleets, also simulated ones; nothing but tests imports it
		"sim/internal/history":          10,
		"sim/internal/relay":            15,
		"sim/internal/hangdisk":         35, // of a data directory
		"sim/cmd/chaos/internal/story":  43,
		"sim/cmd/chaos/internal/report": 44,
		"sim/internal/workload":         42, // callers of the root package
		"sim/internal/model":            25, // runs the passive core, and nothing runs it but tests and sim/cmd
	}
	for p := path; p != "." && p != ""; p = parent(p) {
		if n, ok := floors[p]; ok {
			return n, true
		}
	}
	n, ok := floors[path]
	return n, ok
}

func parent(path string) string {
	i := strings.LastIndexByte(path, '/')
	return path[:max(i, 0)]
}

// list returns our packages and the standard ones that they need. Packages that do not build are
// listed as far as they can be read.
func list(t *testing.T) map[string]pkg {
	t.Helper()
	cmd := exec.Command("go", "list", "-e", "-deps", "-test=false",
		"-json=ImportPath,Name,Dir,Standard,Imports,Deps,GoFiles", "./...")
	cmd.Dir = root(t)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.String())
	}
	pkgs := make(map[string]pkg)
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		err := dec.Decode(&p)
		if errors.Is(err, io.EOF) {
			return pkgs
		}
		if err != nil {
			t.Fatal(err)
		}
		pkgs[p.ImportPath] = p
	}
}

// root is the module's directory.
func root(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "go.mod")); err != nil {
		t.Fatal(err)
	}
	return dir
}

// importRule judges one import of one of our packages; "" is no objection.
type importRule struct {
	name, reason string
	judge        func(from, to string, standard bool) string
	bad          [2]string // an import that the rule refuses
}

func importRules() []importRule {
	only := func(prefix string, allowed ...string) func(string, string, bool) string {
		return func(from, to string, _ bool) string {
			if strings.HasPrefix(to, prefix) && !slices.ContainsFunc(allowed, func(a string) bool { return within(from, a) }) {
				return "only " + strings.Join(allowed, " and ") + " may"
			}
			return ""
		}
	}
	return []importRule{{
		"a package imports only from floors below its own",
		"the thing that decides stays free of the things that do, and each can be tested without those above it",
		higher, [2]string{"fsm", module + "/internal/lease"},
	}, {
		"only internal/consensus and its rooms import dragonboat",
		"dragonboat crashes in many ways, and each is kept out in one place: its messages by wire, its disk by store, its panics by engine",
		only("github.com/lni/dragonboat", "internal/consensus"), [2]string{".", "github.com/lni/dragonboat/v4"},
	}, {
		"only internal/consensus imports its rooms",
		"callers see a group and its report, and none of what it is kept by; a simulation alone prepares the engine's pools",
		func(from, to string, _ bool) string {
			const group = "internal/consensus"
			if to = rel(to); !within(to, group) || to == group || to == group+"/report" || within(from, group) || from == "sim" && to == group+"/preinit/pooled" {
				return ""
			}
			return "only the group and other rooms may"
		}, [2]string{".", module + "/internal/consensus/wire"},
	}, {
		"only internal/membership imports memberlist",
		"nothing in gossip may take or give a lock; the seam is where that is seen",
		only("github.com/hashicorp/memberlist", "internal/membership"), [2]string{"sim", "github.com/hashicorp/memberlist"},
	}, {
		"fence imports the standard library alone",
		"a service that guards a resource must not link Raft",
		func(from, to string, standard bool) string {
			if within(from, "fence") && !standard && !within(rel(to), "fence") {
				return "not standard"
			}
			return ""
		}, [2]string{"fence", "golang.org/x/sys/unix"},
	}, {
		"fsm imports the standard library, protowire and btree",
		"whatever decides what the log means is read in whole by whoever checks it",
		func(from, to string, standard bool) string {
			allowed := []string{"google.golang.org/protobuf/encoding/protowire", "github.com/tidwall/btree"}
			if within(from, "fsm") && !standard && !within(rel(to), "fsm") && !slices.Contains(allowed, to) {
				return "not allowed"
			}
			return ""
		}, [2]string{"fsm", "google.golang.org/protobuf/proto"},
	}, {
		"no production package imports testing",
		"it would register its flags in the user's program",
		func(from, to string, _ bool) string {
			users := []string{"sim", "holdfasttest", "internal/testkit", "internal/frozen", "internal/servers/serverstest", "internal/process/processtest", "contrib/internal/metrics/metricstest", "contrib/internal/migrationtest", "contrib/internal/sqlitetest"}
			if (to == "testing" || strings.HasPrefix(to, "testing/")) && !slices.ContainsFunc(users, func(u string) bool { return within(from, u) }) {
				return "only " + strings.Join(users, ", ") + " may, whose users are tests"
			}
			return ""
		}, [2]string{"transport", "testing"},
	}}
}

// timeless are the rules of packages for which time is an argument.
func timeless() []importRule {
	refuse := func(who func(string) bool, packages ...string) func(string, string, bool) string {
		return func(from, to string, _ bool) string {
			if who(from) && slices.Contains(packages, to) {
				return "not for this package"
			}
			return ""
		}
	}
	return []importRule{{
		"the pure packages have no clock, lock, chance, network or disk at hand",
		"same log, same state; and a decision that depends on its arguments alone can be replayed",
		refuse(pure, "sync", "sync/atomic", "math/rand", "math/rand/v2", "crypto/rand", "net", "os", "context", "runtime"),
		[2]string{"internal/autopilot", "sync"},
	}, {
		"the passive packages have no clock, chance, network or disk at hand",
		"their caller has the time and the goroutines, and may be a model; their locks are for those who call at once",
		refuse(passive, "math/rand", "math/rand/v2", "crypto/rand", "net", "os", "context", "runtime"),
		[2]string{"internal/session", "context"},
	}}
}

// higher objects to an import that does not point down. What lies below a package's path is part of
// it.
func higher(from, to string, _ bool) string {
	to = rel(to)
	if to == "" || from != "." && within(to, from) {
		return ""
	}
	ours, ok1 := floor(from)
	theirs, ok2 := floor(to)
	if !ok1 || !ok2 {
		return "one of them has no floor: give it one in floor()"
	}
	if theirs >= ours {
		return fmt.Sprintf("floor %d imports floor %d", ours, theirs)
	}
	return ""
}

func within(path, dir string) bool { return path == dir || strings.HasPrefix(path, dir+"/") }

func pure(path string) bool {
	return slices.ContainsFunc([]string{"fsm", "internal/lease", "internal/forming", "internal/autopilot", "internal/retry"},
		func(dir string) bool { return within(path, dir) })
}

// passive packages decide as the pure ones do, and keep what they know of safe for callers that
// come at once.
func passive(path string) bool {
	return pure(path) || within(path, "internal/session")
}

func TestImportsKeepTheRules(t *testing.T) {
	t.Parallel()
	pkgs := list(t)
	for _, rule := range slices.Concat(importRules(), timeless()) {
		t.Run(rule.name, func(t *testing.T) {
			t.Parallel()
			if rule.judge(rule.bad[0], rule.bad[1], pkgs[rule.bad[1]].Standard) == "" {
				t.Errorf("the rule does not see that %s imports %s", rule.bad[0], rule.bad[1])
			}
			for path, p := range pkgs {
				from := rel(path)
				if from == "" {
					continue
				}
				for _, to := range p.Imports {
					if what := rule.judge(from, to, pkgs[to].Standard || to == "C"); what != "" {
						t.Errorf("%s imports %s: %s. The reason: %s", from, to, what, rule.reason)
					}
				}
			}
		})
	}
}

func TestEveryPackageHasAFloor(t *testing.T) {
	t.Parallel()
	for path := range list(t) {
		if p := rel(path); p != "" {
			if _, ok := floor(p); !ok {
				t.Errorf("%s has no floor: give it one in floor()", p)
			}
		}
	}
}

// What fence needs indirectly must be standard too, and fsm may bring in nothing but two small
// modules.
func TestLeavesNeedNoMoreThanTheySay(t *testing.T) {
	t.Parallel()
	pkgs := list(t)
	for leaf, allowed := range map[string][]string{
		"fence": nil,
		"fsm":   {"google.golang.org/protobuf", "github.com/tidwall/btree"},
	} {
		for _, dep := range pkgs[module+"/"+leaf].Deps {
			if !pkgs[dep].Standard && !slices.ContainsFunc(allowed, func(a string) bool { return within(dep, a) }) {
				t.Errorf("%s needs %s", leaf, dep)
			}
		}
	}
}

func TestPebbleStaysAtTheVersionThatDragonboatBuildsWith(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile(filepath.Join(root(t), "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(data), "github.com/cockroachdb/pebble v0.0.0-20221207173255-0f086d933dac") {
		t.Error("go.mod names another pebble: dragonboat does not compile with v1, whose file system interface moved")
	}
}
