package holdfast

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
)

// samples are options of each row, which need nothing but what stands with them.
func samples() [optionKinds][]Option {
	return [optionKinds][]Option{
		withTTL: {WithTTL(time.Second)}, withLabel: {WithLabel("l")}, withManualRenew: {WithManualRenew()},
		withMaxHold: {WithMaxHold(time.Hour)}, withMinHold: {WithMinHold(time.Millisecond)},
		withLockDelay: {WithLockDelay(time.Millisecond)}, withValue: {WithValue(nil)}, withPriority: {WithPriority(0)},
		withDeadlockCheck: {WithDeadlockCheck()}, withNoWait: {WithNoWait()}, withShared: {WithShared()},
		withLimit: {WithLimit(2)}, withWeight: {WithWeight(1), WithLimit(2)},
		withKeepFor: {WithKeepFor(time.Hour)}, withWait: {WithWait()},
	}
}

// called are the calls of the table, made with options that may be refused.
func called(ctx context.Context, c *Cluster) map[string]func(opts ...Option) error {
	fn := func(context.Context, *Lease) error { return nil }
	return map[string]func(opts ...Option) error{
		"Acquire":    func(opts ...Option) error { _, err := c.Acquire(ctx, "x", opts...); return err },
		"TryAcquire": func(opts ...Option) error { _, err := c.TryAcquire(ctx, "x", opts...); return err },
		"AcquireAll": func(opts ...Option) error {
			_, err := c.AcquireAll(ctx, []string{"{x}1", "{x}2"}, opts...)
			return err
		},
		"Do":   func(opts ...Option) error { return c.Do(ctx, "x", fn, opts...) },
		"Lead": func(opts ...Option) error { return c.Lead(ctx, "x", fn, opts...) },
		"Campaign": func(opts ...Option) error {
			k, err := c.Campaign(ctx, "x", opts...)
			if err == nil {
				<-k.Done()
			}
			return err
		},
		"Locker":    func(opts ...Option) error { _, err := c.Locker("x", func(error) {}, opts...); return err },
		"Once":      func(opts ...Option) error { _, err := c.Once(ctx, "x", fn, opts...); return err },
		"BeginOnce": func(opts ...Option) error { _, _, err := c.BeginOnce(ctx, "x", opts...); return err },
		"Every": func(opts ...Option) error {
			return c.Every(ctx, "x", time.Second, func(context.Context, time.Time, *Lease) error { return nil }, opts...)
		},
	}
}

// refusedOption is which option an error refuses and for which call, "" if it is another error.
func refusedOption(err error) (option, call string) {
	var field *FieldError
	if !errors.As(err, &field) || !errors.Is(err, ErrInvalid) {
		return "", ""
	}
	_, call, _ = strings.Cut(field.Problem, ", not for ")
	return field.Field, call
}

// An option that a call does not honour and that it takes all the same is a wish that nobody
// hears of: a lock without the minimum hold that keeps two ticks apart, for example.
func TestEveryCallTakesTheOptionsOfItsColumnAndNamesTheOthers(t *testing.T) {
	t.Parallel()
	c := lonely(t, fsm.Limits{}, Config{})
	ended, cancel := context.WithCancel(t.Context()) // what is taken is asked for in vain
	cancel()
	calls := called(ended, c)
	if names := callNames(); 1<<len(names) != callsEnd || len(calls) != len(names) {
		t.Fatalf("%d calls, %d of them here, and bits up to %d", len(names), len(calls), callsEnd)
	}
	for kind, row := range optionTable() {
		for i, name := range callNames() {
			call, with := calls[name], samples()[kind]
			option, by := refusedOption(call(with...))
			switch takes := row.calls&(1<<i) != 0; {
			case takes && option != "":
				t.Errorf("%s refuses %s", name, row.name)
			case !takes && (option != row.name || by != name):
				t.Errorf("%s does not refuse %s in its own name: %q, %q", name, row.name, option, by)
			case !takes || optionTable()[withNoWait].calls&(1<<i) == 0 || kind == int(withNoWait):
				continue
			}
			option, by = refusedOption(call(append(with, WithNoWait())...))
			if waits := row.calls&callTryAcquire == 0; waits && (option != row.name || by != name+" with WithNoWait") || !waits && option != "" {
				t.Errorf("%s with WithNoWait and %s: %q, %q", name, row.name, option, by)
			}
		}
	}
}

// A new option has its row here; the table of the documentation is that of the code.
func TestTheTableOfOptionsIsCompleteAndThatOfTheDocumentation(t *testing.T) {
	t.Parallel()
	var rows []string
	var b strings.Builder
	fmt.Fprintf(&b, "| | `%s` |\n|%s\n", strings.Join(callNames(), "` | `"), strings.Repeat("---|", len(callNames())+1))
	for _, row := range optionTable() {
		rows = append(rows, row.name)
		fmt.Fprintf(&b, "| `%s` |", row.name)
		for i := range callNames() {
			fmt.Fprintf(&b, " %s |", map[bool]string{true: "yes"}[row.calls&(1<<i) != 0])
		}
		b.WriteByte('\n')
	}
	text, err := os.ReadFile("docs/guarantees.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), b.String()) {
		t.Errorf("docs/guarantees.md does not have this table:\n%s", b.String())
	}
	for _, name := range optionMakers(t) {
		if !slices.Contains(rows, name) {
			t.Errorf("%s has no row", name)
		}
	}
	if n := len(optionMakers(t)); n != len(rows) {
		t.Errorf("%d functions return an Option, and there are %d rows", n, len(rows))
	}
}

// The group counts whole milliseconds: a late write may come up to the end of the delay that was asked for.
func TestALockDelayIsNoShorterForTheGroup(t *testing.T) {
	t.Parallel()
	for asked, want := range map[time.Duration]time.Duration{
		time.Millisecond: time.Millisecond, 1900 * time.Microsecond: 2 * time.Millisecond,
		time.Second + 1: time.Second + time.Millisecond, HoldMax: HoldMax,
	} {
		o, err := options{}.with(callAcquire, []Option{WithLockDelay(asked)})
		if err != nil {
			t.Fatal(err)
		}
		cmd := fsm.Acquire{Session: fsm.SessionID{Node: fsm.Node{1}, Incarnation: 1, Number: 1}, TTL: time.Second, Request: 1,
			Name: "x", Terms: fsm.Terms{Delay: o.delay}}
		heard, err := fsm.Decode(fsm.Encode(cmd))
		if err != nil {
			t.Fatal(err)
		}
		if got := heard.(fsm.Acquire).Delay; got != want {
			t.Errorf("%v became %v", asked, got)
		}
	}
}

// optionMakers are the functions of the package that return an Option.
func optionMakers(t *testing.T) (names []string) {
	t.Helper()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Recv != nil || f.Type.Results == nil || len(f.Type.Results.List) != 1 {
				continue
			}
			if result, ok := f.Type.Results.List[0].Type.(*ast.Ident); ok && result.Name == "Option" {
				names = append(names, f.Name.Name)
			}
		}
	}
	return names
}
