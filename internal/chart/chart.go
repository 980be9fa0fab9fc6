// Package chart draws bars as SVG, for the pages of docs, and finds what they show in a list of
// figures. Programs that measure use it.
package chart

import (
	"cmp"
	"fmt"
	"html"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Plot is a chart of bars, some in each row.
type Plot struct {
	Title, Unit string
	Series      []string // names of a row's bars
	Rows        []Bars
}

// Bars are those of one row; 0 is no figure.
type Bars struct {
	Label  string
	Values []float64
}

const (
	plotWidth = 760
	plotLeft  = 220 // of the bars: labels are before
	plotRight = 90  // beyond the longest bar: for its figure
	barHeight = 16
	rowGap    = 12
)

// shades are the bars' colours, readable on white and on black.
func shades() []string { return []string{"#2f81f7", "#8957e5", "#d29922"} }

// SVG draws the plot without a background: the text follows the reader's colour scheme.
func (p Plot) SVG() string {
	top := 44
	if len(p.Series) > 1 {
		top += 24
	}
	highest, rowHeight := 0.0, len(p.Series)*barHeight+rowGap
	for _, r := range p.Rows {
		for _, v := range r.Values {
			highest = math.Max(highest, v)
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" `+
		`font-family="system-ui, sans-serif" font-size="13" role="img" aria-label="%s">`+"\n",
		plotWidth, top+len(p.Rows)*rowHeight, html.EscapeString(p.Title))
	b.WriteString("<style>text{fill:#24292f}" +
		"@media(prefers-color-scheme:dark){text{fill:#e6edf3}}</style>\n")
	fmt.Fprintf(&b, `<text x="8" y="24" font-size="16" font-weight="600">%s, %s</text>`+"\n",
		html.EscapeString(p.Title), html.EscapeString(p.Unit))
	if len(p.Series) > 1 {
		for i, name := range p.Series {
			x := plotLeft + i*150
			fmt.Fprintf(&b, `<rect x="%d" y="38" width="12" height="12" fill="%s"/>`+
				`<text x="%d" y="49">%s</text>`+"\n",
				x, shade(i), x+18, html.EscapeString(name))
		}
	}
	for i, r := range p.Rows {
		y := top + i*rowHeight
		fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="end">%s</text>`+"\n",
			plotLeft-10, y+len(p.Series)*barHeight/2+5, html.EscapeString(r.Label))
		for k, v := range r.Values {
			bar(&b, y+k*barHeight, v, highest, shade(k))
		}
	}
	b.WriteString("</svg>\n")
	return b.String()
}

func shade(i int) string { return shades()[i%len(shades())] }

// bar draws one bar and its figure.
func bar(b *strings.Builder, y int, v, highest float64, fill string) {
	if v <= 0 {
		fmt.Fprintf(b, `<text x="%d" y="%d">–</text>`+"\n", plotLeft+4, y+12)
		return
	}
	width := math.Max(1, v/highest*(plotWidth-plotLeft-plotRight))
	fmt.Fprintf(b, `<rect x="%d" y="%d" width="%.1f" height="%d" rx="2" fill="%s"/>`+
		`<text x="%.1f" y="%d">%s</text>`+"\n",
		plotLeft, y, width, barHeight-2, fill, plotLeft+width+6, y+12, Number(v))
}

// Number has three digits, or all before the point.
func Number(v float64) string {
	switch {
	case v >= 100:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case v >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(v, 'f', 2, 64)
}

// Quantile is that of a list, which it sorts; of an empty one it is zero.
func Quantile[T cmp.Ordered](list []T, q float64) (at T) {
	if len(list) == 0 {
		return at
	}
	slices.Sort(list)
	return list[min(int(q*float64(len(list))), len(list)-1)]
}
