package report

import (
	"fmt"
	"html"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/sim/cmd/chaos/report/story"
	"github.com/holdfast-go/holdfast/sim/internal/history"
)

// The picture's measures, in pixels.
const (
	widthMin     = 1060 // of the whole time
	secondMin    = 14   // at least that wide: a long run is scrolled
	overviewFrom = 1.5  // times widthMin: from then on there is an overview
	labelWidth   = 120
	axisHeight   = 26
	faultHeight  = 17
	nodeHeight   = 34
	laneHeight   = 11
	laneSingle   = 20 // of a lock that one holder has at a time
	gap          = 14
	letter       = 6.1 // width of one, about
)

// picture draws a run: time from left to right, faults above, then the processes, then the locks.
type picture struct {
	v      story.Verdict
	scale  float64 // pixels per second
	width  float64
	y      float64
	bars   strings.Builder // what the overview shows too
	texts  strings.Builder
	labels strings.Builder
}

// x is where a moment is.
func (p *picture) x(at time.Duration) float64 { return at.Seconds() * p.scale }

// bar draws a rectangle over a stretch of time; whoever points at it reads title.
func (p *picture) bar(class string, from, to time.Duration, y, height float64, title string) {
	if from > p.v.Figures.Took {
		return // the processes were told to end
	}
	to = min(to, p.v.Figures.Took)
	fmt.Fprintf(&p.bars, `<rect class="%s" x="%.1f" y="%.1f" width="%.1f" height="%.1f"><title>%s</title></rect>`+"\n",
		class, p.x(from), y, max(p.x(to)-p.x(from), 1), height, html.EscapeString(title))
}

func (p *picture) text(class string, x, y float64, s string) {
	fmt.Fprintf(&p.texts, `<text class="%s" x="%.1f" y="%.1f">%s</text>`+"\n", class, x, y, html.EscapeString(s))
}

// inside writes s into a stretch of time if it fits there.
func (p *picture) inside(class string, from, to time.Duration, y float64, s string) {
	if room := p.x(to) - p.x(from) - 6; float64(len(s))*letter <= room {
		p.text(class, p.x(from)+4, y, s)
	}
}

func (p *picture) label(class string, y float64, s string) {
	fmt.Fprintf(&p.labels, `<text class="%s" x="%d" y="%.1f">%s</text>`+"\n", class, labelWidth-8, y, html.EscapeString(s))
}

// heading begins a part of the picture.
func (p *picture) heading(s string) {
	p.y += gap
	p.label("heading", p.y+4, s)
	p.y += gap - 4
}

// draw returns the picture as SVG inside of HTML.
func draw(v story.Verdict) string {
	p := &picture{v: v}
	seconds := max(v.Figures.Took.Seconds(), 1)
	p.scale = max(widthMin/seconds, secondMin)
	p.width = seconds * p.scale
	p.y = axisHeight
	p.faults()
	p.nodes()
	p.locks()
	p.rates()
	p.y += 6
	p.axis()
	p.violations()
	var b strings.Builder
	fmt.Fprintf(&b, `<svg width="0" height="0" style="position:absolute"><defs>%s</defs></svg>`, patterns())
	if p.width > overviewFrom*widthMin {
		fmt.Fprintf(&b, `<h3>The whole run</h3><svg class="overview" viewBox="0 %d %.0f %.0f" preserveAspectRatio="none"><use href="#bars"/></svg><h3>In detail (scroll to the right)</h3>`,
			axisHeight, p.width, p.y-axisHeight)
	}
	fmt.Fprintf(&b, `<div class="timeline"><svg class="labels" width="%d" height="%.0f">%s</svg><div class="scroll"><svg width="%.0f" height="%.0f"><g id="bars">%s</g>%s</svg></div></div>`,
		labelWidth, p.y, p.labels.String(), p.width, p.y, p.bars.String(), p.texts.String())
	return b.String()
}

// patterns are the hatchings.
func patterns() string {
	one := func(id string, size int) string {
		return fmt.Sprintf(`<pattern id="%s" width="%d" height="%d" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><rect class="p-%s" width="%d" height="%d"/><rect class="s-%s" width="%d" height="%d"/></pattern>`,
			id, size, size, id, size, size, id, size/2, size)
	}
	return one("h-dead", 6) + one("h-network", 8) + one("h-lost", 4)
}

// axis draws the seconds.
func (p *picture) axis() {
	step := time.Second
	for _, s := range []time.Duration{1, 2, 5, 10, 20, 30, 60} {
		if step = s * time.Second; p.x(step) >= 48 {
			break
		}
	}
	var grid strings.Builder
	for at := time.Duration(0); at <= p.v.Figures.Took; at += step {
		fmt.Fprintf(&grid, `<line class="grid" x1="%.1f" x2="%.1f" y1="%d" y2="%.1f"/>`+"\n", p.x(at), p.x(at), axisHeight-6, p.y)
		p.text("tick", p.x(at)+3, axisHeight-10, clock(at))
	}
	if over := p.v.Figures.Over; over > 0 {
		fmt.Fprintf(&grid, `<line class="over" x1="%.1f" x2="%.1f" y1="%d" y2="%.1f"/>`+"\n", p.x(over), p.x(over), axisHeight, p.y)
		p.text("tick over-text", p.x(over)-4, axisHeight+10, "faults end")
	}
	rest := p.bars.String()
	p.bars.Reset()
	p.bars.WriteString(grid.String())
	p.bars.WriteString(rest)
	p.label("axis", axisHeight-10, "time")
}

// clock is a moment of the run for people.
func clock(at time.Duration) string {
	s := int(at.Seconds())
	if s < 60 {
		return fmt.Sprintf("%d s", s)
	}
	return fmt.Sprintf("%d:%02d", s/60, s%60)
}

func (p *picture) faults() {
	list, lanes := faults(p.v)
	p.heading("faults")
	for i := range lanes {
		p.bar("ground", 0, p.v.Figures.Took, p.y+float64(i*faultHeight), faultHeight-2, "")
	}
	for _, f := range list {
		y := p.y + float64(f.lane*faultHeight)
		class := "fault"
		if s := faultState(f.Name); s != "" {
			class = "fault f-" + string(s)
		}
		title := fmt.Sprintf("%s of %v at %.1f s for %.1f s: %s", f.Name, f.Nodes, f.From.Seconds(), (f.To - f.From).Seconds(), f.Text)
		p.bar(class, f.From, f.To, y, faultHeight-2, title)
		p.inside("on", f.From, f.To, y+11, fmt.Sprint(f.Name, " ", strings.Trim(fmt.Sprint(f.Nodes), "[]")))
	}
	p.y += float64(lanes * faultHeight)
	p.majority()
}

// majority shows when the well nodes were none.
func (p *picture) majority() {
	p.label("name", p.y+9, "no majority")
	p.bar("ground", 0, p.v.Figures.Took, p.y, 10, "")
	quorum, since := false, time.Duration(0)
	for _, e := range p.v.History {
		if e.Kind != history.Quorum || e.At > p.v.Figures.Took {
			continue
		}
		if e.OK && !quorum {
			p.bar("minority", since, e.At, p.y, 10, "the well nodes are no majority")
		}
		quorum, since = e.OK, e.At
	}
	if !quorum {
		p.bar("minority", since, p.v.Figures.Took, p.y, 10, "the well nodes are no majority")
	}
	p.y += 12
}

func (p *picture) nodes() {
	p.heading("processes")
	top := p.y
	row := func(node int) float64 { return top + float64(node*nodeHeight) }
	for node := range p.v.Run.Nodes {
		y := row(node)
		fmt.Fprintf(&p.labels, `<rect class="n%d" x="6" y="%.1f" width="12" height="12" rx="2"/>`, node, y+8)
		p.label("name", y+18, fmt.Sprint("node ", node))
	}
	for _, s := range states(p.v) {
		p.bar(string(s.State), s.From, s.To, row(s.Node)+5, nodeHeight-10, fmt.Sprintf("node %d: %s from %.1f s to %.1f s", s.Node, s.State, s.From.Seconds(), s.To.Seconds()))
		if s.State == StateDead && s.From > 0 {
			p.inside("faint", s.From, s.To, row(s.Node)+21, "dead")
		}
	}
	for _, s := range overlays(p.v) {
		y, height := row(s.Node)+5, float64(nodeHeight-10)
		switch s.State {
		case StateNetwork:
			y, height = y+height-8, 8
		case StateStall:
			y, height = y+height, 3
		case StateLeader:
			y, height = y-5, 5
		}
		p.bar(string(s.State), s.From, s.To, y, height, fmt.Sprintf("node %d: %s from %.1f s to %.1f s", s.Node, s.Text, s.From.Seconds(), s.To.Seconds()))
		if s.State == StateStopped || s.State == StateDisk {
			p.inside("on", s.From, s.To, row(s.Node)+21, map[State]string{StateStopped: "stopped", StateDisk: "disk full"}[s.State])
		}
	}
	p.y = row(p.v.Run.Nodes)
}

func (p *picture) locks() {
	p.heading("locks")
	byLock, lanes, names := holds(p.v)
	for _, name := range names {
		height, n := float64(laneHeight), lanes[name]
		if n == 1 {
			height = laneSingle
		}
		p.label("name", p.y+float64(n)*height/2+4, name)
		p.bar("ground", 0, p.v.Figures.Took, p.y, float64(n)*height-2, "")
		for _, g := range byLock[name] {
			y := p.y + float64(g.lane)*height
			how := "released"
			if g.lost != "" {
				how = "lost: " + g.lost
			}
			title := fmt.Sprintf("%s: token %d of node %d from %.2f s for %.2f s, %s",
				strings.Join(g.names, " with "), g.token, g.node, g.from.Seconds(), (g.to - g.from).Seconds(), how)
			valid := min(g.to, max(g.valid, g.from))
			p.bar(fmt.Sprint("n", g.node), g.from, valid, y, height-2, title)
			if g.to > valid {
				p.bar(fmt.Sprint("belief n", g.node), valid, g.to, y, height-2, title+"; not valid any more")
			}
			if g.rest > g.to {
				p.bar("rest", g.to, g.rest, y+height/3, height/3-2, title+"; its place stays taken")
			}
			if g.lost == history.CauseExpired || g.lost == story.CauseDied {
				fmt.Fprintf(&p.bars, `<rect class="loss" x="%.1f" y="%.1f" width="3.5" height="%.1f"><title>%s</title></rect>`+"\n",
					p.x(g.to)-1.5, y-1, height, html.EscapeString(how))
			}
		}
		p.y += float64(n)*height + 4
	}
}

// rates draws the grants of each second.
func (p *picture) rates() {
	const height = 40
	p.heading("grants / s")
	counts := make([]int, int(p.v.Figures.Took/time.Second)+1)
	most := 1
	for _, e := range p.v.History {
		if e.Kind == history.Granted && e.At <= p.v.Figures.Took {
			i := int(e.At / time.Second)
			counts[i]++
			most = max(most, counts[i])
		}
	}
	p.bar("ground", 0, p.v.Figures.Took, p.y, height, "")
	p.label("name", p.y+10, fmt.Sprint(most))
	for i, n := range counts {
		h := float64(n) * height / float64(most)
		from := time.Duration(i) * time.Second
		if n > 0 {
			p.bar("rate", from, min(from+950*time.Millisecond, p.v.Figures.Took), p.y+height-h, h, fmt.Sprintf("%d grants in second %d", n, i))
		}
	}
	p.y += height
}

// violations draws a line through everything at each.
func (p *picture) violations() {
	for i, x := range p.v.Violations {
		fmt.Fprintf(&p.bars, `<line class="violation" x1="%.1f" x2="%.1f" y1="%d" y2="%.1f"><title>%s</title></line>`+"\n",
			p.x(x.At), p.x(x.At), axisHeight-8, p.y, html.EscapeString(x.String()))
		p.text("alarm", p.x(x.At)+3, axisHeight+6, fmt.Sprint("▼ ", i+1))
	}
}
