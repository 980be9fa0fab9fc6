package lint

import (
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// document is one Markdown file of the repository.
type document struct {
	path  string // from the root, with slashes
	lines []string
	code  []bool // whether a line is in a block of code
}

// documents reads every Markdown file that people write.
func documents(t *testing.T) []*document {
	t.Helper()
	dir := root(t)
	var all []*document
	err := readTree(dir, ".md", func(name string, text []byte) error {
		all = append(all, newDocument(name, string(text)))
		return nil
	})
	if err != nil || len(all) == 0 {
		t.Fatalf("%d documents: %v", len(all), err)
	}
	return all
}

func newDocument(name, text string) *document {
	d := &document{path: name, lines: strings.Split(text, "\n")}
	fenced, blank := false, true
	for _, line := range d.lines {
		fence := strings.HasPrefix(line, "```")
		// Four spaces make a block of code, unless they go on with a list.
		indented := strings.HasPrefix(line, "    ") && (blank || len(d.code) > 0 && d.code[len(d.code)-1])
		d.code = append(d.code, fenced || fence || indented)
		if fence {
			fenced = !fenced
		}
		blank = strings.TrimSpace(line) == ""
	}
	return d
}

// anchors are the names of the headings, as GitHub makes them, and those that are written down.
func (d *document) anchors() (names []string) {
	written := regexp.MustCompile(`<a id="([^"]+)">`)
	seen := make(map[string]int)
	for i, line := range d.lines {
		for _, m := range written.FindAllStringSubmatch(line, -1) {
			names = append(names, m[1])
		}
		title := strings.TrimLeft(line, "#")
		if d.code[i] || title == line || !strings.HasPrefix(title, " ") {
			continue
		}
		slug := slugOf(title)
		if n := seen[slug]; n > 0 {
			names = append(names, fmt.Sprintf("%s-%d", slug, n))
		} else {
			names = append(names, slug)
		}
		seen[slug]++
	}
	return names
}

func slugOf(title string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
			return unicode.ToLower(r)
		case r == ' ':
			return '-'
		}
		return -1
	}, strings.TrimSpace(title))
}

// links are the targets of the links in the text, with their lines.
func (d *document) links(yield func(line int, target string) bool) {
	link := regexp.MustCompile(`\]\(([^)\s]+)\)`)
	code := regexp.MustCompile("`[^`]*`")
	for i, line := range d.lines {
		if d.code[i] {
			continue
		}
		// A link's text may be code; code that only looks like a link is none.
		for _, m := range link.FindAllStringSubmatch(code.ReplaceAllString(line, "code"), -1) {
			if !yield(i+1, m[1]) {
				return
			}
		}
	}
}

func TestEveryLinkInADocumentLeadsSomewhere(t *testing.T) {
	t.Parallel()
	byPath := make(map[string]*document)
	all := documents(t)
	for _, d := range all {
		byPath[d.path] = d
	}
	for _, d := range all {
		for line, target := range d.links {
			if what := deadLink(t, byPath, d, target); what != "" {
				t.Errorf("%s:%d: %s: %s", d.path, line, target, what)
			}
		}
	}
}

// deadLink says what is wrong with a link; "" is nothing. Links to other hosts are not followed.
func deadLink(t *testing.T, all map[string]*document, from *document, target string) string {
	u, err := url.Parse(target)
	switch {
	case err != nil:
		return err.Error()
	case u.IsAbs():
		return ""
	}
	to := from.path
	if u.Path != "" {
		to = path.Join(path.Dir(from.path), u.Path)
		if _, err := os.Stat(filepath.Join(root(t), to)); err != nil {
			return "there is no such file"
		}
	}
	if u.Fragment == "" {
		return ""
	}
	if d := all[to]; d == nil || !slices.Contains(d.anchors(), u.Fragment) {
		return "there is no such heading"
	}
	return ""
}

// A company that passes a program on must know what is in it.
func TestTheListOfThirdPartiesIsWhatIsLinked(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(root(t), "THIRD_PARTY.md"))
	if err != nil {
		t.Fatal(err)
	}
	listed := make(map[string]bool)
	for _, m := range regexp.MustCompile(`(?m)^\| ([\w./-]+\.[\w./-]+)`).FindAllStringSubmatch(string(text), -1) {
		listed[m[1]] = false
	}
	for _, cgo := range []string{"0", "1"} {
		cmd := exec.Command("go", "list", "-deps", "-f", "{{with .Module}}{{if not .Main}}{{.Path}}{{end}}{{end}}", ".")
		cmd.Dir, cmd.Env = root(t), append(os.Environ(), "CGO_ENABLED="+cgo)
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		for _, linked := range strings.Fields(string(out)) {
			if _, ok := listed[linked]; !ok {
				t.Errorf("THIRD_PARTY.md does not list %s", linked)
			}
			listed[linked] = true
		}
	}
	for module, linked := range listed {
		if !linked {
			t.Errorf("THIRD_PARTY.md lists %s, which is not linked", module)
		}
	}
}
