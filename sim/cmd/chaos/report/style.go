package report

import (
	"fmt"
	"strings"
)

// style is the page's style sheet, for light and dark.
func style() string {
	var nodes strings.Builder
	for i, colour := range []string{"#4c78a8", "#f58518", "#54a24b", "#b279a2", "#2cb1b5", "#c9a400", "#9d755d", "#7a7fd6", "#8ab03c"} {
		fmt.Fprintf(&nodes, ".n%d{fill:%s}", i, colour)
	}
	return colours() + nodes.String() + `
body{font:14px/1.45 system-ui,sans-serif;background:var(--page);color:var(--ink);margin:24px auto;max-width:1220px;padding:0 16px}
h1{font-size:22px;margin:0 0 8px}h2{font-size:16px;margin:26px 0 8px}h3{font-size:13px;margin:10px 0 4px;font-weight:600;color:var(--faint)}
.badge{display:inline-block;font-weight:600;padding:4px 12px;border-radius:6px;margin:0 0 12px}
.pass{background:var(--good);color:var(--goodink)}.fail{background:var(--bad);color:#fff}
.tiles{display:flex;flex-wrap:wrap;gap:10px}.tiles div{background:var(--card);border-radius:8px;padding:8px 14px;font-size:12px;color:var(--faint)}
.tiles b{display:block;font-size:20px;color:var(--ink)}
.legend span{white-space:nowrap;margin-right:14px;font-size:12px}.legend svg{vertical-align:-1px;margin-right:4px}
.timeline{display:flex;background:var(--card);border-radius:8px;padding:8px 8px 8px 0}.scroll{overflow-x:auto;flex:1}.labels{flex:none}
.overview{width:100%;height:200px;background:var(--card);border-radius:8px}
.columns{display:flex;flex-wrap:wrap;gap:48px}
table{border-collapse:collapse;font-size:13px}td,th{text-align:left;padding:2px 14px 2px 0;border-bottom:1px solid var(--line);vertical-align:top}
pre{background:var(--card);padding:12px;border-radius:8px;overflow-x:auto;font-size:12px}.alarm li{color:var(--alarm)}
text{font:11px system-ui,sans-serif;fill:var(--ink)}text.tick,text.axis,text.faint{fill:var(--faint)}text.on{fill:#fff;font-size:10px}
.labels text{text-anchor:end}text.name{text-anchor:end}text.heading{font-weight:700;fill:var(--faint)}text.alarm{fill:var(--alarm);font-weight:700}
.belief{opacity:.3}.over-text{text-anchor:end}.over{stroke:var(--faint);stroke-width:1.5;stroke-dasharray:4 3}.grid{stroke:var(--line);stroke-width:1}.ground{fill:var(--ground)}
.up{fill:var(--up)}.starting{fill:var(--starting)}.stuck{fill:var(--stuck)}.dead{fill:url(#h-dead)}.stopped{fill:var(--stopped)}
.network{fill:url(#h-network)}.disk{fill:var(--disk)}.leader{fill:var(--leader)}.stall{fill:var(--faint)}.minority{fill:var(--minority)}
.fault{fill:var(--fault)}.f-stopped{fill:var(--stopped)}.f-network{fill:var(--network)}.f-disk{fill:var(--disk)}
.loss{fill:var(--bad)}.rate{fill:var(--rate)}.violation{stroke:var(--bad);stroke-width:2;fill:var(--bad)}
.rest{fill:var(--faint)}.p-h-dead{fill:var(--ground)}.s-h-dead{fill:var(--line)}.p-h-network{fill:var(--network)}.s-h-network{fill:var(--network2)}
.p-h-lost{fill:none}.s-h-lost{fill:var(--bad)}
`
}

// colours are the sheet's variables.
func colours() string {
	return `:root{color-scheme:light dark;--page:#fff;--ink:#1c2430;--faint:#66707e;--card:#f5f6f8;--line:#d9dde3;--ground:#eceef1;
--good:#d5efdc;--goodink:#125c2b;--bad:#d3222a;--alarm:#b3131b;--up:#a9dbb6;--starting:#f5df8f;--stuck:#f0b968;--stopped:#5d6b82;--network:#e0762d;
--network2:#f6b98b;--disk:#8e3b8a;--leader:#d99a00;--minority:#9aa3b0;--fault:#8a5a44;--rate:#6f8fc0}
@media(prefers-color-scheme:dark){:root{--page:#14181f;--ink:#e4e8ee;--faint:#98a2b0;--card:#1d232c;--line:#38414e;--ground:#262d38;
--good:#1d4a2c;--goodink:#c9f0d5;--bad:#f0454c;--alarm:#ff7b80;--up:#2f6b42;--starting:#a8963a;--stuck:#9a5a12;--stopped:#7686a3;--network:#b8561b;
--network2:#e59257;--disk:#a550a0;--leader:#f2c14e;--minority:#6b7585;--fault:#9a6a54;--rate:#5f7fb5}}
`
}
