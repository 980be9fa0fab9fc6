//go:build unix

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	child "github.com/holdfast-go/holdfast/internal/process"
)

// TestMain makes the test binary the service when a test starts it as one.
func TestMain(m *testing.M) {
	if os.Getenv("HOLDFAST_EXAMPLE") != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

const patience = time.Minute

// record is a line of the service's log.
type record struct {
	Msg, Node, Addr, HTTP, Order, Error string
	Level                               string
	from                                *process
}

// process is one running service.
type process struct {
	name string
	http string
	node string
	*child.Process
}

// fleet is the processes and what they have logged.
type fleet struct {
	t        *testing.T
	dir      string
	news     chan record
	balancer sync.RWMutex // held for reading during each request
	live     []*process   // that requests are sent to
	mu       sync.Mutex
	handled  map[string]int // how often each order was handled
}

func newFleet(t *testing.T) *fleet {
	t.Helper()
	f := &fleet{t: t, dir: t.TempDir(), news: make(chan record, 4096), handled: make(map[string]int)}
	if err := os.WriteFile(f.peers(), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return f
}

func (f *fleet) peers() string { return filepath.Join(f.dir, "peers") }

// start runs a process; ports are the kernel's choice. The others find it through a file of
// addresses.
func (f *fleet) start(name, dataDir string) *process {
	f.t.Helper()
	p := &process{name: name}
	cmd := child.Self()
	cmd.Env = append(cmd.Env, "HOLDFAST_EXAMPLE=1", "HOLDFAST_NAME="+name, "HOLDFAST_DATA_DIR="+dataDir,
		"HOLDFAST_BIND=127.0.0.1:0", "HTTP_ADDR=127.0.0.1:0", "HOLDFAST_JOIN=file+"+f.peers(),
		"HOLDFAST_SECRETS=a secret for this test alone", "JOB_EVERY=200ms")
	cmd.Stderr = child.Lines(func(line []byte) { f.note(p, line) })
	var err error
	if p.Process, err = child.Start(cmd); err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(p.Kill)
	open := f.await(name+" opens", func(r record) bool { return r.from == p && r.Msg == "open" })
	p.http, p.node = open.HTTP, open.Node
	peers, err := os.OpenFile(f.peers(), os.O_APPEND|os.O_WRONLY, 0)
	if err == nil {
		_, err = fmt.Fprintln(peers, open.Addr)
		err = errors.Join(err, peers.Close())
	}
	if err != nil {
		f.t.Fatal(err)
	}
	return p
}

// note takes a line of a process's log.
func (f *fleet) note(p *process, line []byte) {
	r := record{from: p}
	if json.Unmarshal(line, &r) != nil {
		r.Msg = string(line)
	}
	if r.Msg == "handled" {
		f.mu.Lock()
		f.handled[r.Order]++
		f.mu.Unlock()
	}
	if r.Level != "INFO" {
		f.t.Logf("%s: %s", p.name, line)
	}
	select {
	case f.news <- r:
	default: // nobody waits for any
	}
}

// await waits for a line of the log. Lines before it are dropped.
func (f *fleet) await(what string, fits func(record) bool) record {
	f.t.Helper()
	late := time.After(patience)
	for {
		select {
		case r := <-f.news:
			if fits(r) {
				return r
			}
		case <-late:
			f.t.Fatalf("waiting in vain: %s", what)
		}
	}
}

// admit waits until processes are ready, and sends them requests from then on.
func (f *fleet) admit(processes ...*process) {
	f.t.Helper()
	waits := slices.Clone(processes)
	for len(waits) > 0 {
		r := f.await("ready", func(r record) bool { return r.Msg == "ready" && slices.Contains(waits, r.from) })
		waits = slices.DeleteFunc(waits, func(p *process) bool { return p == r.from })
		if code, body := f.get(r.from, "/readyz"); code != http.StatusOK {
			f.t.Errorf("%s is ready and answers %d %s", r.from.name, code, body)
		}
		if code, body := f.get(r.from, "/status/"); code != http.StatusOK || !strings.Contains(body, r.from.node) {
			f.t.Errorf("the page of %s: %d %s", r.from.name, code, body)
		}
	}
	f.balancer.Lock()
	f.live = append(f.live, processes...)
	f.balancer.Unlock()
}

// stop takes a process out of the load balancer and ends it as an orchestrator does.
func (f *fleet) stop(p *process) {
	f.t.Helper()
	f.balancer.Lock() // what was sent to it has its answer
	f.live = slices.DeleteFunc(f.live, func(other *process) bool { return other == p })
	f.balancer.Unlock()
	if err := p.Signal(syscall.SIGTERM); err != nil {
		f.t.Fatal(err)
	}
	select {
	case <-p.Done():
		if err := p.Err(); err != nil {
			f.t.Errorf("%s: %v", p.name, err)
		}
	case <-time.After(patience):
		f.t.Fatalf("%s does not end", p.name)
	}
}

func (f *fleet) get(p *process, path string) (int, string) {
	f.t.Helper()
	response, err := http.Get("http://" + p.http + path)
	if err != nil {
		f.t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		f.t.Fatal(err)
	}
	return response.StatusCode, strings.TrimSpace(string(body))
}

// customer sends orders, each to two processes, until ctx ends. It returns how many; any refusal
// fails the test.
func (f *fleet) customer(ctx context.Context, name string) (orders int) {
	for ; ctx.Err() == nil; orders++ {
		for again := range 2 {
			if err := f.post(orders+again, fmt.Sprintf("/orders/%s-%d", name, orders)); err != nil {
				f.t.Error(err)
				return orders
			}
		}
	}
	return orders
}

func (f *fleet) post(which int, path string) error {
	f.balancer.RLock()
	defer f.balancer.RUnlock()
	p := f.live[which%len(f.live)]
	response, err := http.Post("http://"+p.http+path, "", nil)
	if err != nil {
		return fmt.Errorf("%s: %w", p.name, err)
	}
	defer response.Body.Close()
	if body, _ := io.ReadAll(response.Body); response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s %s", p.name, response.Status, body)
	}
	return nil
}

// roll replaces every process, one by one, while customers send orders, and looks at what became of
// these.
func (f *fleet) roll(replace func(old *process)) {
	f.t.Helper()
	ctx, cancel := context.WithCancel(f.t.Context())
	defer cancel()
	var customers sync.WaitGroup
	counts := make([]int, 2)
	for i := range counts {
		customers.Go(func() { counts[i] = f.customer(ctx, fmt.Sprintf("customer%d", i)) })
	}
	for _, p := range slices.Clone(f.live) {
		replace(p)
	}
	cancel()
	customers.Wait()
	for i, orders := range counts {
		if orders < 10 {
			f.t.Errorf("customer%d sent only %d orders: nothing was tested", i, orders)
		}
		for n := range orders {
			f.mu.Lock()
			if times := f.handled[fmt.Sprintf("customer%d-%d", i, n)]; times != 1 {
				f.t.Errorf("order %d of customer%d was handled %d times", n, i, times)
			}
			f.mu.Unlock()
		}
	}
}

// three are the processes that form the fleet.
func (f *fleet) three(dataDir func(name string) string) {
	f.t.Helper()
	var all []*process
	for _, name := range []string{"amber", "birch", "cedar"} {
		all = append(all, f.start(name, dataDir(name)))
	}
	f.admit(all...)
}

// check looks at what every process says when all is quiet.
func (f *fleet) check() {
	f.t.Helper()
	leaders := make(map[string]bool)
	for _, p := range f.live {
		if code, body := f.get(p, "/livez"); code != http.StatusOK {
			f.t.Errorf("%s: livez %d %s", p.name, code, body)
		}
		code, leader := f.get(p, "/leader")
		if code != http.StatusOK {
			f.t.Errorf("%s: leader %d %s", p.name, code, leader)
		}
		leaders[leader] = true
		for _, want := range []string{"holdfast_ready 1\n", "holdfast_voters 3\n", "holdfast_foreign_groups 0"} {
			f.says(p, want)
		}
	}
	if len(leaders) != 1 {
		f.t.Errorf("there are %d leaders", len(leaders))
	}
}

// says waits for a line in the metrics of a process. real time: a node that is new is made a voter
// a second after it has come.
func (f *fleet) says(p *process, want string) {
	f.t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	late := time.After(patience)
	for {
		_, body := f.get(p, "/metrics")
		if strings.Contains(body, want) {
			return
		}
		select {
		case <-tick.C:
		case <-late:
			f.t.Errorf("%s: no %q in its metrics:\n%s", p.name, want, body)
			return
		}
	}
}

// A Deployment: each new process is a new node, started before the old one is told to leave.
func TestARollingUpdateWithoutDisksRefusesNoRequest(t *testing.T) {
	f := newFleet(t)
	f.three(func(string) string { return "" })
	f.roll(func(old *process) {
		f.admit(f.start(old.name+" the second", ""))
		f.stop(old)
	})
	f.check()
}

// A StatefulSet: each process ends, and starts again as the same node.
func TestARollingUpdateWithDisksRefusesNoRequest(t *testing.T) {
	f := newFleet(t)
	dir := func(name string) string { return filepath.Join(f.dir, name) }
	f.three(dir)
	f.roll(func(old *process) {
		f.stop(old)
		next := f.start(old.name, dir(old.name))
		f.admit(next)
		if next.node != old.node {
			t.Errorf("%s came back as another node", old.name)
		}
	})
	f.check()
}

// A StatefulSet that is scaled from three to one: each process that goes is told so before.
func TestAFleetWithDisksShrinksToOneThatServes(t *testing.T) {
	f := newFleet(t)
	dir := func(name string) string { return filepath.Join(f.dir, name) }
	f.three(dir)
	for _, p := range f.live[1:] {
		cmd := child.Self()
		cmd.Args = append(cmd.Args, "leave")
		cmd.Env = append(cmd.Env, "HOLDFAST_EXAMPLE=1", "HOLDFAST_DATA_DIR="+dir(p.name))
		if err := cmd.Run(); err != nil {
			t.Fatal(err)
		}
	}
	for len(f.live) > 1 {
		f.stop(f.live[1])
	}
	f.says(f.live[0], "holdfast_voters 1\n")
	if err := f.post(0, "/orders/last"); err != nil {
		t.Error(err)
	}
	if left, err := filepath.Glob(filepath.Join(f.dir, "*.leave")); err != nil || len(left) > 0 {
		t.Errorf("those that left would leave again: %v, %v", left, err)
	}
}

func TestTheEnvironmentIsReadAndWhatIsWrongIsNamed(t *testing.T) {
	values := map[string]string{
		"HTTP_ADDR": ":1", "HOLDFAST_JOIN": "dns+a:1, b:2,", "HOLDFAST_SECRETS": "x,y", "HOLDFAST_BOOTSTRAP": "-1", "HOLDFAST_TTL": "3s",
	}
	c, err := fromEnvironment(func(name string) string { return values[name] })
	switch {
	case err != nil:
		t.Fatal(err)
	case c.http != ":1", !slices.Equal(c.holdfast.Join, []string{"dns+a:1", "b:2"}), len(c.holdfast.Secrets) != 2,
		c.holdfast.Bootstrap != -1, c.holdfast.TTL != 3*time.Second, c.every != time.Minute, c.holdfast.Bind != "0.0.0.0:7643":
		t.Errorf("%+v", c)
	}
	if _, err := fromEnvironment(func(n string) string { return map[string]string{"JOB_EVERY": "50ms"}[n] }); err == nil || !strings.Contains(err.Error(), "JOB_EVERY") {
		t.Errorf("of a period that no job may have: %v", err) // the job would never run, and all else look well
	}
	for _, name := range []string{"HOLDFAST_VOTERS", "JOB_EVERY"} {
		_, err := fromEnvironment(func(n string) string { return map[string]string{name: "-"}[n] })
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
