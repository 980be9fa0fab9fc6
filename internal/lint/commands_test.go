package lint

import (
	"go/ast"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// command is a command that a document tells its reader to run.
type command struct {
	doc  *document
	line int
	text string
}

// commands finds the commands of a document: lines of its blocks of code, and code in its text.
func (d *document) commands() (list []command) {
	spans := regexp.MustCompile("`([^`]+)`")
	known := regexp.MustCompile(`^(\$ |\()?((HOLDFAST|SEED|TIMES)\w*=\S* )*(cd|go|make|kubectl|docker|\.ci/run)\b`)
	fence := ""
	for i, line := range d.lines {
		var texts []string
		switch {
		case strings.HasPrefix(line, "```"):
			fence = strings.TrimPrefix(line, "```")
		case d.code[i] && fence != "go":
			texts = []string{strings.TrimSpace(line)}
		case !d.code[i]:
			for _, m := range spans.FindAllStringSubmatch(line, -1) {
				texts = append(texts, m[1])
			}
		}
		for _, text := range texts {
			if known.MatchString(text) && strings.ContainsRune(text, ' ') {
				list = append(list, command{d, i + 1, text})
			}
		}
	}
	return list
}

func TestEveryCommandInADocumentNamesWhatExists(t *testing.T) {
	t.Parallel()
	all := sources(t)
	seen := 0
	for _, d := range documents(t) {
		for _, c := range d.commands() {
			seen++
			for _, what := range c.check(t, all) {
				t.Errorf("%s:%d: %s: %s", d.path, c.line, c.text, what)
			}
		}
	}
	if seen < 50 {
		t.Errorf("only %d commands were found: the pattern has become useless", seen)
	}
}

// check says what a command names that does not exist.
func (c command) check(t *testing.T, all []*source) (wrong []string) {
	text, _, _ := strings.Cut(c.text, "  ") // what follows explains it
	text, _, _ = strings.Cut(text, " #")
	text = strings.Trim(text, "()$ ")
	dir := "."
	for _, part := range regexp.MustCompile(`&&|;|\|`).Split(text, -1) {
		words := strings.Fields(part)
		for len(words) > 0 && strings.Contains(words[0], "=") {
			if name, _, _ := strings.Cut(words[0], "="); strings.HasPrefix(name, "HOLDFAST") && !reads(all, name) {
				wrong = append(wrong, "nothing reads "+name)
			}
			words = words[1:]
		}
		switch {
		case len(words) < 2:
		case words[0] == "cd":
			dir = path.Join(dir, words[1])
			if dir != "hello" && !exists(t, ".", dir) { // the reader's own
				wrong = append(wrong, "there is no directory "+dir)
			}
		case words[0] == "go":
			wrong = append(wrong, checkGo(t, all, dir, words[1], words[2:])...)
		case words[0] == "make":
			wrong = append(wrong, checkWord(t, "Makefile", `(?m)^`+words[1]+`:`)...)
		case words[0] == ".ci/run":
			wrong = append(wrong, checkWord(t, ".ci/run", `(?m)^step_`+words[1]+`\(\)`)...)
		case words[0] == "kubectl", words[0] == "docker":
			wrong = append(wrong, checkFiles(t, dir, words)...)
		}
	}
	return wrong
}

func checkWord(t *testing.T, file, pattern string) []string {
	text, err := os.ReadFile(filepath.Join(root(t), file))
	if err != nil || !regexp.MustCompile(pattern).Match(text) {
		return []string{file + " has no " + pattern}
	}
	return nil
}

// checkFiles looks for what follows -f.
func checkFiles(t *testing.T, dir string, words []string) (wrong []string) {
	for i, word := range words[1:] {
		if words[i] == "-f" && !exists(t, dir, word) {
			wrong = append(wrong, "there is no "+word)
		}
	}
	return wrong
}

// reads reports whether a source has the name of an environment variable.
func reads(all []*source, name string) bool {
	return slices.ContainsFunc(all, func(s *source) bool { return strings.Contains(string(s.text), `"`+name+`"`) })
}

// checkGo checks the packages and the tests that a go command names.
func checkGo(t *testing.T, all []*source, dir, verb string, words []string) (wrong []string) {
	if !slices.Contains([]string{"run", "test", "build", "vet"}, verb) {
		return nil
	}
	var packages, patterns []string
	for i, word := range words {
		before := ""
		if i > 0 {
			before = words[i-1]
		}
		switch {
		case before == "-run" || before == "-bench":
			patterns = append(patterns, strings.Trim(word, `'"`))
		case word == "." || strings.HasPrefix(word, "./"):
			packages = append(packages, path.Join(dir, strings.TrimSuffix(strings.TrimSuffix(word, "..."), "/")))
			if verb == "run" { // what follows is the program's
				return append(wrong, checkPackages(all, verb, packages)...)
			}
		}
	}
	if len(packages) == 0 {
		packages = []string{dir}
	}
	wrong = checkPackages(all, verb, packages)
	for _, pattern := range patterns {
		if !matches(all, packages, pattern) {
			wrong = append(wrong, "no test or benchmark is named "+pattern)
		}
	}
	return wrong
}

func checkPackages(all []*source, verb string, packages []string) (wrong []string) {
	for _, p := range packages {
		if !slices.ContainsFunc(all, func(s *source) bool {
			return within(s.path, p) || p == "." && (verb != "run" || s.dir() == "." && s.file.Name.Name == "main")
		}) {
			wrong = append(wrong, "there is no package "+p)
		}
	}
	return wrong
}

// matches reports whether a pattern of -run or -bench selects anything, or is meant to select
// nothing. Of a pattern with slashes the first part counts.
func matches(all []*source, packages []string, pattern string) bool {
	first, _, _ := strings.Cut(pattern, "/")
	if first == "^$" {
		return true
	}
	re, err := regexp.Compile(first)
	return err == nil && slices.ContainsFunc(all, func(s *source) bool {
		return s.isTest() && slices.ContainsFunc(packages, func(p string) bool { return p == "." || within(s.path, p) }) &&
			slices.ContainsFunc(s.file.Decls, func(d ast.Decl) bool {
				f, ok := d.(*ast.FuncDecl)
				return ok && f.Recv == nil && re.MatchString(f.Name.Name) &&
					(strings.HasPrefix(f.Name.Name, "Test") || strings.HasPrefix(f.Name.Name, "Benchmark"))
			})
	})
}

// A program that a document prints in whole compiles as it stands.
func TestEveryProgramInADocumentIsSound(t *testing.T) {
	t.Parallel()
	seen := 0
	for _, d := range documents(t) {
		for line, text := range d.blocks("go") {
			if !strings.HasPrefix(text, "package main\n") {
				continue
			}
			seen++
			file := filepath.Join(t.TempDir(), "main.go")
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command("go", "vet", file)
			cmd.Dir = root(t)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%s:%d: %v\n%s", d.path, line, err, out)
			}
			if out, err := exec.Command("gofmt", "-l", file).CombinedOutput(); err == nil && len(out) > 0 {
				t.Errorf("%s:%d: gofmt would change it", d.path, line)
			}
		}
	}
	if seen == 0 {
		t.Error("no program was found")
	}
}

// Fragments that leave nothing out are Go, too.
func TestEveryFragmentInADocumentParses(t *testing.T) {
	t.Parallel()
	for _, d := range documents(t) {
		for line, text := range d.blocks("go") {
			if strings.Contains(text, "…") || strings.Contains(text, "// wrong") || strings.HasPrefix(text, "package ") {
				continue
			}
			_, first := parse("a.go", []byte("package a\n"+text))
			_, second := parse("a.go", []byte("package a\nfunc f() {\n"+text+"\n}\n"))
			if first != nil && second != nil {
				t.Errorf("%s:%d: %v", d.path, line, second)
			}
		}
	}
}

// blocks are the blocks of code in a language, with the lines where they begin.
func (d *document) blocks(language string) map[int]string {
	blocks := make(map[int]string)
	begin := 0
	for i, line := range d.lines {
		switch {
		case begin == 0 && line == "```"+language:
			begin = i + 1
		case begin > 0 && strings.HasPrefix(line, "```"):
			blocks[begin+1] = strings.Join(d.lines[begin:i], "\n") + "\n"
			begin = 0
		}
	}
	return blocks
}
