package report

import (
	"fmt"
	"html"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/sim/cmd/chaos/report/story"
)

const faultsListed = 200

// Page is the report as one self-contained page: it loads nothing and runs no script.
func Page(v story.Verdict) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, `<!doctype html><html lang="en"><head><meta charset="utf-8"/><meta name="viewport" content="width=device-width, initial-scale=1"/><title>holdfast chaos, seed %d</title><style>%s</style></head><body>`+"\n", v.Run.Seed, style())
	badge := "pass"
	if !v.OK() {
		badge = "fail"
	}
	fmt.Fprintf(&b, `<h1>Chaos run, seed %d</h1><p class="badge %s">%s</p>`+"\n", v.Run.Seed, badge, html.EscapeString(Headline(v)))
	tiles(&b, v)
	list(&b, "Violations", violations(v))
	b.WriteString(`<h2>What happened</h2>` + legend(v.Run.Nodes))
	b.WriteString(draw(v))
	b.WriteString(`<div class="columns"><div><h2>How late a lost lock was granted again</h2>`)
	latenessChart(&b, v.Waits)
	b.WriteString(`</div><div><h2>Recovery after the end of the faults</h2><table>`)
	for i := range v.Run.Nodes {
		d, ok := v.Recovery[i]
		text := d.Round(time.Millisecond).String()
		if !ok {
			text = "never served"
		}
		fmt.Fprintf(&b, `<tr><td>node %d</td><td>%s</td></tr>`, i, text)
	}
	b.WriteString(`</table></div></div>`)
	faultTable(&b, v)
	fmt.Fprintf(&b, `<h2>The report as text</h2><pre>%s</pre></body></html>`+"\n", html.EscapeString(Text(v)))
	return []byte(b.String())
}

// tiles are the figures that say most.
func tiles(b *strings.Builder, v story.Verdict) {
	f := v.Figures
	_, latest, _ := lateness(v.Waits)
	b.WriteString(`<div class="tiles">`)
	for _, t := range []struct{ value, name string }{
		{fmt.Sprint(len(v.Violations)), "violations"},
		{f.Took.Round(time.Second).String(), fmt.Sprintf("%d processes, TTL %v", v.Run.Nodes, v.Run.TTL)},
		{fmt.Sprint(f.FaultsTotal()), "faults"},
		{fmt.Sprint(f.Deaths), "deaths of processes"},
		{fmt.Sprint(f.Leaders), "raft leaders in office"},
		{fmt.Sprint(f.Grants), "grants"},
		{fmt.Sprint(f.Expired), "leases expired"},
		{fmt.Sprint(f.Kinds.Tenures), "tenures of leaders"},
		{fmt.Sprint(f.Kinds.Sets), "sets had together"},
		{fmt.Sprint(f.Kinds.Told), "changes told to watchers"},
		{latest.Late.Round(time.Millisecond).String(), "latest grant after a loss"},
		{fmt.Sprintf("%d / %d", f.FencedLost, f.UnfencedLost), "updates lost with / without a guard"},
		{fmt.Sprint(f.Refused), "stale writes refused"},
	} {
		fmt.Fprintf(b, `<div><b>%s</b>%s</div>`, html.EscapeString(t.value), html.EscapeString(t.name))
	}
	b.WriteString("</div>\n")
}

func violations(v story.Verdict) (all []string) {
	for i, x := range v.Violations {
		all = append(all, fmt.Sprintf("%d: %v", i+1, x))
	}
	for _, why := range v.Vacuous {
		all = append(all, "vacuous: "+why)
	}
	for _, s := range v.Run.Skipped {
		all = append(all, "skipped: "+s)
	}
	return all
}

func list(b *strings.Builder, title string, items []string) {
	if len(items) == 0 {
		return
	}
	fmt.Fprintf(b, `<h2>%s</h2><ul class="alarm">`, title)
	for _, s := range items {
		fmt.Fprintf(b, `<li>%s</li>`, html.EscapeString(s))
	}
	b.WriteString("</ul>\n")
}

// legend says what the colours mean.
func legend(nodes int) string {
	var b strings.Builder
	b.WriteString(`<p class="legend">`)
	for _, x := range []struct{ class, name string }{
		{"up", "serves"}, {"starting", "starts"}, {"stuck", "does not serve"}, {"dead", "no process"}, {"stopped", "stopped (SIGSTOP)"},
		{"network", "network cut or bad"}, {"disk", "disk full"}, {"leader", "raft leader, as it sees itself"}, {"stall", "got no processor or disk"},
		{"loss", "lease lost"}, {"rest", "stays taken as its holder asked"}, {"violation", "violation"},
	} {
		fmt.Fprintf(&b, `<span><svg width="18" height="12"><rect class="%s" x="1" y="1" width="16" height="10"/></svg>%s</span> `, x.class, x.name)
	}
	b.WriteString(`<span>a lock is drawn in the colour of its holder:`)
	for i := range nodes {
		fmt.Fprintf(&b, ` <svg width="12" height="12"><rect class="n%d" x="1" y="1" width="10" height="10"/></svg>%d`, i, i)
	}
	b.WriteString(`, pale when its lease is not valid any more and it does not know</span></p>` + "\n")
	return b.String()
}

// latenessChart draws the lateness.
func latenessChart(b *strings.Builder, waits []story.Wait) {
	const width = 260
	h, latest, excused := lateness(waits)
	fmt.Fprintf(b, `<p>%d grants after a lost lease with a majority, %d without one.`, h.Count, excused)
	if h.Count > 0 {
		fmt.Fprintf(b, ` Latest: %v (%s, at %.1f s).`, latest.Late.Round(time.Millisecond), html.EscapeString(latest.Lock), latest.At.Seconds())
	}
	all := barsOf(h)
	fmt.Fprintf(b, `</p><svg width="%d" height="%d">`, width+140, len(all)*20)
	for i, x := range all {
		w := x.count * width / int(h.Count)
		fmt.Fprintf(b, `<text class="name" x="70" y="%d">%s</text><rect class="rate" x="78" y="%d" width="%d" height="14"/><text class="count" x="%d" y="%d">%d</text>`,
			i*20+13, html.EscapeString(x.name), i*20+2, w, 84+w, i*20+13, x.count)
	}
	b.WriteString(`</svg>`)
}

func faultTable(b *strings.Builder, v story.Verdict) {
	all, _ := faults(v)
	b.WriteString(`<h2>Faults</h2><table><tr><th>at</th><th>for</th><th>fault</th><th>nodes</th><th></th></tr>`)
	for i, f := range all {
		if i == faultsListed {
			fmt.Fprintf(b, `<tr><td></td><td></td><td colspan="3">and %d more</td></tr>`, len(all)-i)
			break
		}
		fmt.Fprintf(b, `<tr><td>%.1f s</td><td>%.1f s</td><td>%s</td><td>%s</td><td>%s</td></tr>`+"\n", f.From.Seconds(), (f.To - f.From).Seconds(),
			html.EscapeString(f.Name), strings.Trim(fmt.Sprint(f.Nodes), "[]"), html.EscapeString(f.Text))
	}
	b.WriteString("</table>\n")
}
