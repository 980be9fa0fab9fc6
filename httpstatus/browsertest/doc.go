// Package browsertest shows the pages of httpstatus to a real Chromium: it is tests alone, in a
// module of its own, so that nobody who imports the library downloads a browser's protocol.
//
// The tests are skipped where there is no Chromium (Debian's package "chromium"). The rules of
// accessibility are axe-core's, which npm fetches (or HOLDFAST_AXE, the path of an axe.min.js);
// without either that part is skipped. HOLDFAST_SCREENSHOTS names a directory for pictures of all
// pages at three widths in both themes: look at them after a change.
package browsertest
