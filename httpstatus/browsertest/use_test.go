package browsertest

import (
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/httpstatus"
)

func TestThePageFollowsTheFleetWithoutAReload(t *testing.T) {
	b := newBrowser(t)
	s := newSite(t, httpstatus.Options{})
	b.do(t, chromedp.Navigate(s.address+"locks"))
	value[bool](t, b, "window.same = true")
	b.is(t, `document.querySelector("#list").innerText.includes("No lock is held")`)
	l := s.hold(t, 1, "appears", holdfast.WithLabel("by itself"))
	b.is(t, `window.same && document.querySelector("#list").innerText.includes("by itself")`)
	b.do(t, chromedp.Navigate(s.address+"events"))
	b.is(t, `!document.querySelector("#live").hidden`)
	if err := l.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.is(t, `document.querySelector("#feed").innerText.includes("released")`)
	b.quiet(t, "the live page")
}

// Names are other people's words: nothing in them runs, where the server writes them or the module.
func TestHostileNamesDoNotRun(t *testing.T) {
	b := newBrowser(t)
	s := newSite(t, httpstatus.Options{Authorize: allow})
	const attack = `"'><img src=x onerror=alert(1)><script>alert(2)</script><svg/onload=alert(3)>`
	b.do(t, chromedp.Navigate(s.address))
	b.is(t, `!document.querySelector("#live").hidden`)
	s.hold(t, 1, attack, holdfast.WithLabel(attack), holdfast.WithValue([]byte(attack)))
	s.queue(t, 2, attack, holdfast.WithLabel(attack))
	b.is(t, `document.querySelector("#feed").innerText.includes("alert(2)") && document.querySelector("#contended").innerText.includes("alert(2)")`)
	b.do(t, chromedp.Click(`#feed a`))
	b.is(t, `document.querySelector("h1").innerText.includes("alert(3)") && document.querySelector("#lock").innerText.includes("alert(1)")`)
	if foreign := value[int](t, b, `document.querySelectorAll("img, script:not([src]), main svg").length`); foreign != 0 {
		t.Errorf("a name has become %d elements", foreign)
	}
	b.quiet(t, "the page of a hostile name")
}

func TestAnOperatorTakesALockByTheKeyboard(t *testing.T) {
	b := newBrowser(t)
	s := newSite(t, httpstatus.Options{Authorize: allow})
	l := s.hold(t, 1, "stuck", holdfast.WithLabel("hung"))
	b.do(t, chromedp.Navigate(s.address+"locks"), chromedp.KeyEvent("/"))
	b.is(t, `document.activeElement.name === "q" && (document.activeElement.value = "", true)`) // the protocol types the key, too
	b.do(t, chromedp.KeyEvent("stu"), chromedp.KeyEvent(kb.Enter))
	b.is(t, `location.search.includes("q=stu") && document.querySelector("#list").innerText.includes("hung")`)
	b.do(t, chromedp.Focus(`#list tbody a`), chromedp.KeyEvent(kb.Enter))
	b.is(t, `document.querySelector("h1")?.innerText.trim() === "stuck"`)
	b.do(t,
		chromedp.Focus(`details:last-of-type summary`), chromedp.KeyEvent(kb.Enter),
		chromedp.Focus(`details:last-of-type input[name=reason]`), chromedp.KeyEvent("hung since noon"), chromedp.KeyEvent(kb.Enter))
	b.is(t, `document.body.innerText.includes("The grant is over.") && document.querySelector("#lock").innerText.includes("hung since noon")`)
	<-l.Done()
	b.quiet(t, "the change")
}

func TestWithoutJavaScriptThePagesAreWhole(t *testing.T) {
	b := newBrowser(t)
	s := newSite(t, httpstatus.Options{Authorize: allow})
	l := s.hold(t, 1, "stuck", holdfast.WithLabel("hung"))
	b.do(t, call(emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true}), chromedp.Navigate(s.address+"locks?q=stu"), chromedp.Click(`#list tbody a`),
		chromedp.WaitVisible(`#change`), chromedp.Click(`details:last-of-type summary`),
		chromedp.SendKeys(`details:last-of-type input[name=reason]`, "without a script"), chromedp.Click(`details:last-of-type button`),
		chromedp.WaitVisible(`.note.good`), chromedp.WaitVisible(`noscript p`))
	<-l.Done()
}
