package main

import (
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"os"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/term"
)

func (a *app) checkFormat() error {
	if !slices.Contains([]string{"table", "json", "jsonl"}, a.format) {
		return fmt.Errorf("-o %q is none of table, json, jsonl", a.format)
	}
	return nil
}

// column is one of a table.
type column[T any] struct {
	head string
	text func(T) string
}

// list prints values as a table, as one array, or as one object a line. An error ends the list.
func list[T any](a *app, values iter.Seq2[T, error], columns []column[T]) error {
	all := []T{}
	for v, err := range values {
		if err != nil {
			return err
		}
		if a.format == "jsonl" {
			if err := a.printJSON(v); err != nil {
				return err
			}
			continue
		}
		all = append(all, v)
	}
	switch a.format {
	case "json":
		return a.printJSON(all)
	case "table":
		return a.table(rowsOf(all, columns))
	}
	return nil
}

// rows turns what the fleet answers into what list prints.
func rows[T, R any](values iter.Seq2[T, error], row func(T) R) iter.Seq2[R, error] {
	return func(yield func(R, error) bool) {
		for v, err := range values {
			if !yield(row(v), err) {
				return
			}
		}
	}
}

func valuesOf[T any](all []T) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for _, v := range all {
			if !yield(v, nil) {
				return
			}
		}
	}
}

func rowsOf[T any](all []T, columns []column[T]) [][]string {
	head := make([]string, len(columns))
	for i, c := range columns {
		head[i] = c.head
	}
	rows := [][]string{head}
	for _, v := range all {
		row := make([]string, len(columns))
		for i, c := range columns {
			row[i] = c.text(v)
		}
		rows = append(rows, row)
	}
	return rows
}

// one prints a value, or what is written of it for people.
func (a *app) one(v any, people func(w io.Writer)) error {
	if a.format != "table" {
		return a.printJSON(v)
	}
	var text strings.Builder
	people(&text)
	_, err := io.WriteString(a.out, text.String())
	return err
}

func (a *app) printJSON(v any) error {
	out := json.NewEncoder(a.out)
	out.SetEscapeHTML(false)
	if a.format == "json" {
		out.SetIndent("", "  ")
	}
	return out.Encode(v)
}

func (a *app) table(rows [][]string) error {
	_, err := io.WriteString(a.out, a.columns(rows))
	return err
}

// columns writes rows in columns, the first one as their heads.
func (a *app) columns(rows [][]string) string {
	colours := a.colours()
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			row[i] = clean(cell)
			widths[i] = max(widths[i], utf8.RuneCountInString(row[i]))
		}
	}
	var text strings.Builder
	for n, row := range rows {
		for i, cell := range row {
			pad := ""
			if i < len(row)-1 {
				pad = strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)+2)
			}
			if n > 0 && colours {
				cell = paint(cell)
			}
			text.WriteString(cell + pad)
		}
		text.WriteByte('\n')
	}
	return text.String()
}

// colours reports whether people look at the output and want colours.
func (a *app) colours() bool {
	f, ok := a.out.(*os.File)
	return ok && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" && term.IsTerminal(int(f.Fd()))
}

// paint colours the words that say how something is.
func paint(cell string) string {
	switch cell {
	case "alive", "serving", "ok", "held":
		return "\x1b[32m" + cell + "\x1b[0m"
	case "suspect", "waiting", "warning":
		return "\x1b[33m" + cell + "\x1b[0m"
	case "failed", "ill", "no-quorum", "unseen":
		return "\x1b[31m" + cell + "\x1b[0m"
	}
	return cell
}

// clean makes other people's words harmless for a terminal: what cannot be printed is escaped.
func clean(s string) string {
	if !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) || r == utf8.RuneError }) {
		return s
	}
	var out strings.Builder
	for _, r := range s {
		switch {
		case r == '\n' || r == '\t':
			out.WriteByte(' ')
		case unicode.IsPrint(r):
			out.WriteRune(r)
		default:
			fmt.Fprintf(&out, "\\u%04x", r)
		}
	}
	return out.String()
}

// since is the time a number of seconds ago in RFC 3339; nil for 0, which is not known.
func since(now time.Time, seconds float64) *string {
	if seconds == 0 {
		return nil
	}
	at := now.Add(-time.Duration(seconds * float64(time.Second))).UTC().Format(time.RFC3339)
	return &at
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
