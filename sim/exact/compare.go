package main

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
)

// linesMin is what a trace has at least: one with fewer proves nothing.
const linesMin = 1000

// compare returns an error that shows the first difference of two files, with the lines before it.
func compare(a, b string) error {
	left, err := os.ReadFile(a)
	if err != nil {
		return err
	}
	right, err := os.ReadFile(b)
	if err != nil {
		return err
	}
	if bytes.Equal(left, right) {
		return nil
	}
	ls, rs := bytes.Split(left, []byte("\n")), bytes.Split(right, []byte("\n"))
	n := 0
	for n < len(ls) && n < len(rs) && bytes.Equal(ls[n], rs[n]) {
		n++
	}
	text := fmt.Sprintf("%s and %s part at line %d", a, b, n+1)
	for _, l := range ls[max(0, n-5):n] {
		text += fmt.Sprintf("\n  %s", l)
	}
	for _, side := range []struct {
		mark  string
		lines [][]byte
	}{{"-", ls}, {"+", rs}} {
		for _, l := range side.lines[min(n, len(side.lines)):min(n+5, len(side.lines))] {
			text += fmt.Sprintf("\n%s %s", side.mark, l)
		}
	}
	return fmt.Errorf("%s", text)
}

// digest counts the lines of a file and returns its hash.
func digest(name string) (lines int, sum string, err error) {
	f, err := os.Open(name)
	if err != nil {
		return 0, "", err
	}
	defer f.Close()
	hash := sha256.New()
	in := bufio.NewReader(io.TeeReader(f, hash))
	for {
		_, err := in.ReadSlice('\n')
		switch err {
		case nil:
			lines++
		case bufio.ErrBufferFull: // a part of a long line
		case io.EOF:
			if lines < linesMin {
				return lines, "", fmt.Errorf("%s has %d lines: too few to prove anything", name, lines)
			}
			return lines, fmt.Sprintf("%x", hash.Sum(nil)), nil
		default:
			return lines, "", err
		}
	}
}
