package browsertest

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/httpstatus"
	"github.com/holdfast-go/holdfast/internal/testkit"
)

const (
	patience   = 2 * time.Minute // for what takes a second on an idle machine
	axeVersion = "4.14.1"
	axeBytes   = 400_000 // that an axe.min.js has at least
)

// site is a fleet of three whose first node serves its page.
type site struct {
	fleet   []*holdfast.Cluster
	address string
}

func newSite(t *testing.T, opts httpstatus.Options) *site {
	t.Helper()
	dir := t.TempDir()
	fleet := holdfasttest.Fleet(t, 3, holdfasttest.Configure(func(node int, cfg *holdfast.Config) {
		cfg.Name = []string{"amber", "basil", "cedar"}[node]
		cfg.Zone = []string{"eu-1a", "eu-1b", "eu-1c"}[node]
		cfg.DataDir, cfg.Logger = filepath.Join(dir, cfg.Name), slog.New(slog.DiscardHandler) // the tests break what they log of
	}))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/holdfast/", http.StripPrefix("/holdfast", httpstatus.Handler(fleet[0], opts)))
	server := &http.Server{Handler: mux, ReadHeaderTimeout: patience}
	over := make(chan struct{})
	go func() { defer close(over); _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close(); <-over })
	return &site{fleet, "http://" + listener.Addr().String() + "/holdfast/"}
}

// hold takes a lock on a node until the test is over.
func (s *site) hold(t *testing.T, node int, name string, opts ...holdfast.Option) *holdfast.Lease {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	l, err := s.fleet[node].Acquire(ctx, name, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// queue makes a call of a node wait for a lock until the test is over.
func (s *site) queue(t *testing.T, node int, name string, opts ...holdfast.Option) {
	t.Helper()
	testkit.Queue(t, s.fleet[node], name, opts...)
}

// browser is a tab of Chromium, and what its console complains of.
type browser struct {
	context.Context
	mu         sync.Mutex
	complaints []string
}

func newBrowser(t *testing.T) *browser {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("there is no chromium in PATH: what a browser makes of the pages is not tested (Debian: apt-get install chromium)")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox,
		chromedp.WSURLReadTimeout(patience), chromedp.Flag("lang", "en"))
	parent, stop := chromedp.NewExecAllocator(t.Context(), options...)
	ctx, end := chromedp.NewContext(parent)
	t.Cleanup(func() { end(); stop() })
	b := &browser{}
	if err := chromedp.Listen(ctx, b.hear); err != nil {
		t.Fatal(err)
	}
	limited, cancel := context.WithTimeout(ctx, patience) // the browser itself lives until the end of the test
	t.Cleanup(cancel)
	b.Context = limited
	b.do(t, call(log.Enable, cdp.Empty{}), call(runtime.Enable, cdp.Empty{}), call(page.Enable, page.EnableParams{}))
	return b
}

// call is a command of the protocol as a step.
func call[P, R any](command cdp.Command[P, R], params P) step {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, command, params)
		return err
	})
}

// step is an action without a result.
type step = chromedp.Action[chromedp.Void]

// value is what an expression of JavaScript evaluates to.
func value[T any](t *testing.T, b *browser, expression string, opts ...chromedp.EvaluateOption) T {
	t.Helper()
	v, err := chromedp.Run(b, chromedp.Evaluate[T](expression, opts...))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// hear notes what is on the console, and that a script was injected: it would ask for a dialog.
func (b *browser) hear(event any) {
	what := ""
	switch e := event.(type) {
	case *log.EventEntryAdded:
		what = fmt.Sprintf("%s: %s %s", e.Entry.Level, e.Entry.Text, e.Entry.URL)
	case *runtime.EventExceptionThrown:
		what = fmt.Sprint(e.ExceptionDetails)
	case *page.EventJavascriptDialogOpening:
		what = "a dialog: " + e.Message
	default:
		return
	}
	b.mu.Lock()
	b.complaints = append(b.complaints, what)
	b.mu.Unlock()
}

func (b *browser) do(t *testing.T, steps ...step) {
	t.Helper()
	if err := chromedp.Do(b, steps...); err != nil {
		t.Fatal(err)
	}
}

// is waits until an expression of JavaScript is true.
func (b *browser) is(t *testing.T, expression string) {
	t.Helper()
	limit := time.After(patience / 2)
	for {
		ok, err := chromedp.Run(b, chromedp.Evaluate[bool](expression)) // fails while the browser goes from page to page
		if err == nil && ok {
			return
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-limit:
			body, _ := chromedp.Run(b, chromedp.Evaluate[string]("document.body.innerText"))
			t.Fatalf("%s: %v\n%s", expression, err, body)
		}
	}
}

func (b *browser) quiet(t *testing.T, where string) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.complaints) > 0 {
		t.Errorf("%s: the browser complains:\n%s", where, strings.Join(b.complaints, "\n"))
	}
	b.complaints = nil
}

// axe is the source of axe-core, "" where it cannot be had.
func axe(t *testing.T) string {
	t.Helper()
	path := os.Getenv("HOLDFAST_AXE")
	if path == "" {
		dir := t.TempDir()
		path = filepath.Join(dir, "package", "axe.min.js")
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		pack := exec.CommandContext(ctx, "npm", "pack", "--silent", "axe-core@"+axeVersion)
		pack.Dir = dir
		if out, err := pack.CombinedOutput(); err != nil {
			t.Logf("npm cannot fetch axe-core (%v), and HOLDFAST_AXE is not set: accessibility is not tested\n%s", err, out)
			return ""
		}
		if out, err := exec.CommandContext(ctx, "tar", "-xzf", filepath.Join(dir, "axe-core-"+axeVersion+".tgz"), "-C", dir).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	text, err := os.ReadFile(path)
	if err != nil || len(text) < axeBytes {
		t.Fatalf("axe-core has %d bytes: %v", len(text), err)
	}
	return string(text)
}
