package browsertest

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/httpstatus"
)

func allow(*http.Request) error { return nil }

// furnish fills a fleet with what a service has.
func furnish(t *testing.T, s *site) {
	t.Helper()
	s.hold(t, 0, "report/monthly", holdfast.WithLabel("billing-worker-7"), holdfast.WithValue([]byte(`{"page": 118, "of": 420}`)))
	s.queue(t, 1, "report/monthly", holdfast.WithLabel("billing-worker-2"))
	s.queue(t, 2, "report/monthly", holdfast.WithLabel("billing-worker-9"))
	s.queue(t, 2, "report/monthly", holdfast.WithLabel("a person's shell"), holdfast.WithPriority(3))
	s.hold(t, 1, "tenants/acme/import", holdfast.WithLabel("importer"))
	s.queue(t, 0, "tenants/acme/import", holdfast.WithLabel("importer"))
	s.hold(t, 2, "migrations")
	for i := range 3 {
		s.hold(t, i, "thumbnails", holdfast.WithLimit(8), holdfast.WithWeight(2), holdfast.WithLabel(fmt.Sprintf("resize-%d", i)))
		s.hold(t, i, "catalogue", holdfast.WithShared())
	}
	for i := range 60 {
		s.hold(t, i%3, fmt.Sprintf("orders/%05d", 40*i+17), holdfast.WithLabel("checkout"))
	}
	for _, name := range []string{"cleanup", "scheduler", "invoice-sender"} {
		for _, c := range s.fleet {
			if _, err := c.Campaign(t.Context(), name, holdfast.WithLabel(name+" service")); err != nil {
				t.Fatal(err)
			}
		}
	}
	past := s.hold(t, 1, "report/weekly", holdfast.WithLabel("billing-worker-2"))
	if err := past.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	forced := s.hold(t, 2, "report/weekly", holdfast.WithLabel("billing-worker-4"))
	if err := s.fleet[0].ForceRelease(t.Context(), "report/weekly", forced.Token(), "hung since noon, ticket 4711"); err != nil {
		t.Fatal(err)
	}
	s.hold(t, 0, "report/weekly", holdfast.WithLabel("billing-worker-7"))
	if _, err := s.fleet[1].Once(t.Context(), "invoice/2026-11", func(context.Context, *holdfast.Lease) error { return nil }); err != nil {
		t.Fatal(err)
	}
}

func pages() map[string]string {
	return map[string]string{
		"overview": "", "members": "members", "locks": "locks", "elections": "elections", "lock": "lock?name=report/monthly", "past": "lock?name=report/weekly",
		"semaphore": "lock?name=thumbnails", "once": "once?key=invoice/2026-11", "keys": "once", "leases": "leases", "events": "events", "empty": "locks?q=no+such+thing",
		"invalid": "lock?name=",
	}
}

// Every page at three widths and in both themes: nothing is wider than the screen, the browser has
// no complaint, and axe-core finds nothing.
func TestEveryPageFitsEveryScreenAndIsAccessible(t *testing.T) {
	b := newBrowser(t)
	s := newSite(t, httpstatus.Options{Authorize: allow})
	furnish(t, s)
	rules := axe(t)
	for name, path := range pages() {
		b.visit(t, s, name, path, rules)
	}
	b.busy(t, s)
	for _, c := range s.fleet[1:] {
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for st := s.fleet[0].Status(); st.Ready || st.RaftLeader != ""; st = s.fleet[0].Status() {
		select {
		case <-time.After(50 * time.Millisecond):
		case <-b.Done():
			t.Fatal("the node does not notice that it is alone")
		}
	}
	b.visit(t, s, "overview-no-quorum", "", rules)
	b.visit(t, s, "locks-stale", "locks", rules)
}

// busy takes the picture for the documents: the overview while things happen.
func (b *browser) busy(t *testing.T, s *site) {
	t.Helper()
	b.do(t,
		call(emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: 1280, Height: 800, DeviceScaleFactor: 1}),
		call(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: "light"}}}),
		chromedp.Navigate(s.address))
	b.is(t, `!document.querySelector("#live").hidden`)
	for i, name := range []string{"orders/20417", "orders/20418", "tenants/globex/import", "orders/20421", "thumbnails", "orders/20424"} {
		l := s.hold(t, i%3, name+"/now", holdfast.WithLabel("checkout"))
		if i%2 == 0 {
			if err := l.Release(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	b.is(t, `document.querySelectorAll("#feed li").length >= 9`)
	b.picture(t, "busy")
}

// picture stores what is shown, where somebody wants to look at it.
func (b *browser) picture(t *testing.T, name string) {
	t.Helper()
	dir := os.Getenv("HOLDFAST_SCREENSHOTS")
	if dir == "" {
		return
	}
	picture, err := chromedp.Run(b, chromedp.FullScreenshot(100))
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, name+".png"), picture, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func (b *browser) visit(t *testing.T, s *site, name, path, rules string) {
	t.Helper()
	for _, theme := range []string{"light", "dark"} {
		for _, width := range []int64{360, 768, 1280} {
			where := fmt.Sprintf("%s-%s-%d", name, theme, width)
			b.do(t,
				call(emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: width, Height: 800, DeviceScaleFactor: 1, Mobile: width < 500}),
				call(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: theme}}}),
				chromedp.Navigate(s.address+path),
				chromedp.WaitVisible("footer"),
			)
			if !value[bool](t, b, "document.documentElement.scrollWidth <= innerWidth") {
				t.Errorf("%s is wider than the screen", where)
			}
			if name == "invalid" {
				b.mu.Lock()
				b.complaints = nil // of the status 400
				b.mu.Unlock()
			}
			b.quiet(t, where)
			if rules != "" {
				b.axe(t, where, rules)
			}
			b.picture(t, where)
		}
	}
}

// axe runs the rules on the page that is shown.
func (b *browser) axe(t *testing.T, where, rules string) {
	t.Helper()
	value[chromedp.Void](t, b, rules+";undefined")
	found := value[[]string](t, b, `axe.run().then(r => r.violations.flatMap(v => v.nodes.map(n => v.id + " (" + v.help + "): " + n.html + " " + n.failureSummary)))`,
		chromedp.EvalAwaitPromise)
	for _, f := range found {
		t.Errorf("%s: %s", where, f)
	}
}
