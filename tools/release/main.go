// Command release makes the tree's modules ready for their tags.
//
// In the tree the modules use each other through replace directives and at no version. An
// outsider's go command ignores the replace directives of what it gets, and go install refuses a
// module that has any. So the commit that is tagged has none, and names the version of the release
// instead:
//
//	cd tools && go run ./release -version v0.1.0
//
// rewrites the go.mod files of the modules that are released and prints the tags, one for each
// module. CONTRIBUTING.md has the whole procedure. The tests of this package are an outsider: they get
// every module from a bare clone of the tree, before the first release and of one.
package main

import (
	"flag"
	"fmt"
	"os"
)

func main() {
	root := flag.String("root", "..", "directory of the main module")
	version := flag.String("version", "", "version of the release, such as v0.1.0")
	flag.Parse()
	tags, err := release(*root, *version)
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
	for _, tag := range tags {
		fmt.Println(tag)
	}
}

// release rewrites the go.mod files below root and returns the tags. Whatever it refuses, it
// refuses before it writes.
func release(root, version string) (tags []string, err error) {
	all, err := find(root)
	if err != nil {
		return nil, err
	}
	texts := make([][]byte, len(all))
	for i, m := range all {
		if texts[i], err = m.released(version, all); err != nil {
			return nil, err
		}
	}
	for i, m := range all {
		if err := os.WriteFile(m.file.Syntax.Name, texts[i], 0o644); err != nil {
			return nil, err
		}
		tags = append(tags, m.tag(version))
	}
	return tags, nil
}
