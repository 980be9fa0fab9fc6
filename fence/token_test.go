package fence

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

func TestTokenSurvivesEveryEncoding(t *testing.T) {
	t.Parallel()
	for _, want := range []Token{0, 1, 4711, TokenMax} {
		var fromJSON, fromText, fromSQL, fromString, fromBytes Token
		data, err := json.Marshal(want)
		if err != nil || json.Unmarshal(data, &fromJSON) != nil || fromJSON != want {
			t.Errorf("%v: JSON %s came back as %v (%v)", want, data, fromJSON, err)
		}
		if string(data) != fmt.Sprint(uint64(want)) {
			t.Errorf("%v: JSON is %s, not a bare number", want, data)
		}
		text, err := want.MarshalText()
		if err != nil || fromText.UnmarshalText(text) != nil || fromText != want {
			t.Errorf("%v: text %s came back as %v (%v)", want, text, fromText, err)
		}
		value, err := want.Value()
		if err != nil || fromSQL.Scan(value) != nil || fromSQL != want {
			t.Errorf("%v: SQL %v came back as %v (%v)", want, value, fromSQL, err)
		}
		if fromString.Scan(want.String()) != nil || fromBytes.Scan(text) != nil || fromString != want || fromBytes != want {
			t.Errorf("%v: digits from a driver came back as %v and %v", want, fromString, fromBytes)
		}
	}
}

func TestWhatIsNoTokenIsRefusedAndChangesNothing(t *testing.T) {
	t.Parallel()
	check := func(what string, read func(*Token) error) {
		got := Token(7)
		if err := read(&got); !errors.Is(err, ErrInvalidToken) || got != 7 {
			t.Errorf("%s: token %v, error %v", what, got, err)
		}
	}
	for _, text := range []string{"", "-1", "+1", "1.0", "1e3", "0x10", "1_000", " 1", "9007199254740992",
		"18446744073709551616", strings.Repeat("9", 1000)} {
		check("text "+text, func(t *Token) error { return t.UnmarshalText([]byte(text)) })
	}
	for _, data := range []string{`"1"`, `1.5`, `1e3`, `-1`, `{}`, `true`, `9007199254740992`} {
		check("JSON "+data, func(t *Token) error { return json.Unmarshal([]byte(data), t) })
	}
	for _, v := range []any{nil, int64(-1), int64(TokenMax) + 1, 1.5, true, "x", []byte("-1")} {
		check(fmt.Sprintf("SQL %v", v), func(t *Token) error { return t.Scan(v) })
	}
	tooHigh := TokenMax + 1
	if _, err := tooHigh.MarshalJSON(); !errors.Is(err, ErrInvalidToken) {
		t.Errorf("JSON of 2^53: %v", err)
	}
	if _, err := tooHigh.Value(); !errors.Is(err, ErrInvalidToken) {
		t.Errorf("SQL value of 2^53: %v", err)
	}
}

func TestJSONNullLeavesTheTokenAlone(t *testing.T) {
	t.Parallel()
	got := Token(7)
	if err := json.Unmarshal([]byte("null"), &got); err != nil || got != 7 {
		t.Fatalf("got %v, %v", got, err)
	}
}

func TestTokenIsLoggedAsANumber(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	slog.New(slog.NewJSONHandler(&out, nil)).Info("granted", "token", Token(4711))
	if !strings.Contains(out.String(), `"token":4711`) {
		t.Fatalf("log line %s", out.String())
	}
}

func TestContextCarriesTheToken(t *testing.T) {
	t.Parallel()
	if got, ok := FromContext(NewContext(t.Context(), 5)); !ok || got != 5 {
		t.Errorf("got %v, %v", got, ok)
	}
	if _, ok := FromContext(context.Background()); ok {
		t.Error("a bare context has a token")
	}
	var none context.Context
	if _, ok := FromContext(none); ok {
		t.Error("a nil context has a token")
	}
	if got, ok := FromContext(NewContext(none, 5)); !ok || got != 5 {
		t.Errorf("from a nil parent: %v, %v", got, ok)
	}
}
