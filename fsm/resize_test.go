package fsm

import "testing"

func TestAResizeOutOfBoundsIsInvalid(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]Resize{
		"no name":        {"", 2, 1},
		"a Once key":     {OnceName("k"), 2, 1},
		"no permits":     {"x", 0, 1},
		"too many":       {"x", LimitMax + 1, 1},
		"without a look": {"x", 2, 0},
		"seen ahead":     {"x", 2, 99},
	} {
		b := newBench(t)
		before := stateOf(b.m)
		b.must(c, CodeInvalid)
		if string(stateOf(b.m)) != string(before) {
			t.Errorf("%s: the state changed", what)
		}
	}
}

// A program that makes up names, and resizes each, must not fill the memory of the group.
func TestOfTooManyResizesTheOldestThatNobodyUsesIsForgotten(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.m.limits.resizes = 2
	tokens := make(map[string]uint64)
	resized := func(name string, want Code) {
		t.Helper()
		c := acquire(uint64(len(tokens)+1), name)
		c.Mode, c.Limit = Permit, 3
		tokens[name] = b.must(c, CodeGranted).Token
		b.must(Resize{name, 5, b.m.Commands()}, want)
	}
	release := func(name string) {
		t.Helper()
		b.must(Release{Session: sessionOf('a', 1), Grants: []Grant{{name, tokens[name]}}}, CodeOK)
	}
	resized("a", CodeOK)
	resized("b", CodeOK)
	resized("c", CodeTooManyResized)
	release("b")
	b.must(Resize{"c", 5, b.m.Commands()}, CodeOK)
	release("a")
	release("c")
	resized("d", CodeOK)
	for name, known := range map[string]bool{"a": false, "b": false, "c": true, "d": true} {
		if _, ok := b.m.resizes.Get(name); ok != known {
			t.Errorf("%s is remembered: %v", name, ok)
		}
	}
}
