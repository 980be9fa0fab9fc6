package lint

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

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
