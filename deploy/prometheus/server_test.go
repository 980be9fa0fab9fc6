package prometheus

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// tool is the path of one of the programs of Prometheus; without it the test is skipped.
func tool(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("%s is not installed (Debian: package prometheus)", name)
	}
	return path
}

func TestPromtoolAcceptsTheRulesAndTheirCases(t *testing.T) {
	t.Parallel()
	promtool := tool(t, "promtool")
	for _, args := range [][]string{{"check", "rules", "rules.yml"}, {"test", "rules", "rules_test.yml"}} {
		if out, err := exec.CommandContext(t.Context(), promtool, args...).CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}

func TestEachAlertHasACaseInWhichItFiresAndOneInWhichItDoesNot(t *testing.T) {
	t.Parallel()
	var file struct {
		Tests []struct {
			Cases []struct {
				Alert    string `yaml:"alertname"`
				Expected []any  `yaml:"exp_alerts"`
			} `yaml:"alert_rule_test"`
		} `yaml:"tests"`
	}
	decode(t, "rules_test.yml", &file)
	fires, quiet := make(map[string]bool), make(map[string]bool)
	for _, test := range file.Tests {
		for _, c := range test.Cases {
			if len(c.Expected) > 0 {
				fires[c.Alert] = true
			} else {
				quiet[c.Alert] = true
			}
		}
	}
	for _, r := range rules(t) {
		if !fires[r.Alert] || !quiet[r.Alert] {
			t.Errorf("%s: a case in which it fires: %v; in which not: %v", r.Alert, fires[r.Alert], quiet[r.Alert])
		}
	}
}

// scraped is the endpoint of a node. The n-th scrape closes the channel: those before it are stored
// by then, as they follow each other.
func scraped(t *testing.T, n int) (address string, done <-chan struct{}) {
	t.Helper()
	handler := promhttp.HandlerFor(node(t), promhttp.HandlerOpts{})
	stored := make(chan struct{})
	scrapes := make(chan int, 1)
	scrapes <- 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen := <-scrapes + 1
		scrapes <- seen
		if seen == n {
			close(stored)
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return server.Listener.Addr().String(), stored
}

// server starts a Prometheus that scrapes an address every second, with the rules. It
// returns its own address.
func server(t *testing.T, target string) string {
	t.Helper()
	dir := t.TempDir()
	rules, err := filepath.Abs("rules.yml")
	if err != nil {
		t.Fatal(err)
	}
	// The interval is also the timeout of a scrape, on a machine that is busy otherwise.
	config := fmt.Sprintf("global: {scrape_interval: 1s, evaluation_interval: 1s}\nrule_files: [%q]\n"+
		"scrape_configs: [{job_name: holdfast, static_configs: [{targets: [%q]}]}]\n", rules, target)
	if err := os.WriteFile(filepath.Join(dir, "prometheus.yml"), []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(tool(t, "prometheus"), "--config.file="+filepath.Join(dir, "prometheus.yml"),
		"--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address=127.0.0.1:0")
	logs, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	address, ready, ended := make(chan string, 1), make(chan struct{}), make(chan struct{})
	go follow(logs, address, ready, ended)
	t.Cleanup(func() {
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
		<-ended
		if err := cmd.Wait(); err != nil {
			t.Errorf("prometheus: %v", err)
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	select {
	case <-ready:
	case <-ended:
		t.Fatal("prometheus has ended")
	case <-ctx.Done():
		t.Fatal("prometheus is not ready")
	}
	return <-address
}

// follow reads the log until its end: the address of the server, and that it is ready.
func follow(logs io.Reader, address chan<- string, ready, ended chan<- struct{}) {
	defer close(ended)
	listening := regexp.MustCompile(`msg="(?:Listening on|TLS is disabled\.)".* address=(127\.0\.0\.1:\d+)`)
	lines := bufio.NewScanner(logs)
	for lines.Scan() {
		if m := listening.FindStringSubmatch(lines.Text()); m != nil {
			select {
			case address <- m[1]:
			default:
			}
		}
		if strings.Contains(lines.Text(), "Server is ready to receive web requests") {
			close(ready)
		}
	}
}

// answer is the result of a query of the server: one entry for each series.
func answer(ctx context.Context, server, expr string) ([]json.RawMessage, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+server+"/api/v1/query?query="+url.QueryEscape(expr), nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	var body struct {
		Status, Error string
		Data          struct{ Result []json.RawMessage }
	}
	if err := json.NewDecoder(response.Body).Decode(&body); err != nil {
		return nil, err
	}
	if body.Status != "success" {
		return nil, errors.New(body.Error)
	}
	return body.Data.Result, nil
}

// shows asks until the answer has as many series as it should: one scrape may have come too late, and a
// rate needs two.
func shows(ctx context.Context, server, expr string, enough func(series int) bool) (int, error) {
	for {
		series, err := answer(ctx, server, expr)
		if err != nil || enough(len(series)) {
			return len(series), err
		}
		select {
		case <-time.After(100 * time.Millisecond): // real time: the server scrapes meanwhile
		case <-ctx.Done():
			return len(series), ctx.Err()
		}
	}
}

func TestAServerThatScrapesANodeAnswersEveryQueryOfRulesAndDashboard(t *testing.T) {
	defer http.DefaultClient.CloseIdleConnections()
	tool(t, "prometheus")
	target, stored := scraped(t, 4)
	address := server(t, target)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	select {
	case <-stored:
	case <-ctx.Done():
		t.Fatal("the node was not scraped")
	}
	for _, want := range []string{
		`up{job="holdfast"} == 1`, `holdfast_ready == 1`, `holdfast_leases_granted_total == 1`, `holdfast_fence_checks_total{result="stale"} == 1`,
		`holdfast_commit_seconds_count > 0`,
	} {
		if series, err := shows(ctx, address, want, func(n int) bool { return n == 1 }); err != nil {
			t.Errorf("%s: %d series, %v", want, series, err)
		}
	}
	for _, r := range rules(t) {
		if _, err := answer(ctx, address, r.Expr); err != nil {
			t.Errorf("%s: %v", r.Alert, err)
		}
	}
	for _, q := range queries(t) {
		if series, err := shows(ctx, address, q.expr, func(n int) bool { return n > 0 }); err != nil {
			t.Errorf("%s shows %d series, %v", q.panel, series, err)
		}
	}
}
