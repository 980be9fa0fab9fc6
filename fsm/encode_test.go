package fsm

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/frozen"
)

func TestEveryCommandIsReadAsItWasWritten(t *testing.T) {
	t.Parallel()
	for _, c := range everyCommand() {
		if again, err := Decode(Encode(c)); err != nil || !reflect.DeepEqual(again, c) {
			t.Errorf("%+v became %+v: %v", c, again, err)
		}
	}
}

// pointerTo returns a pointer to a copy of v, which has the methods of v.
func pointerTo[T any](v T) T {
	p := reflect.New(reflect.TypeOf(v))
	p.Elem().Set(reflect.ValueOf(v))
	return p.Interface().(T)
}

func TestAPointerIsWrittenAsItsValue(t *testing.T) {
	t.Parallel()
	for _, c := range append(everyCommand(), Batch{[]Command{Acquire{}, CloseSession{}}}) {
		if !bytes.Equal(Encode(pointerTo(c)), Encode(c)) {
			t.Errorf("a pointer to %+v is written otherwise", c)
		}
	}
	for _, q := range everyQuestion() {
		if !bytes.Equal(EncodeQuestion(pointerTo(q)), EncodeQuestion(q)) {
			t.Errorf("a pointer to %+v is written otherwise", q)
		}
	}
	for _, a := range everyAnswer() {
		if !bytes.Equal(EncodeAnswer(pointerTo(a)), EncodeAnswer(a)) {
			t.Errorf("a pointer to %+v is written otherwise", a)
		}
	}
}

// Every outcome and event, with all fields of its own and without any.
func TestOutcomesAndEventsKeepTheirEncoding(t *testing.T) {
	t.Parallel()
	h := Holder{
		Session: sessionOf('a', 300), Request: 2, NodeName: "alpha", Token: 3, Granted: 6,
		Terms: Terms{Label: "l", Mode: Permit, Weight: 4, Limit: 5, Priority: -5, Delay: time.Second, Election: true},
	}
	var b strings.Builder
	pack := func(name string, o Outcome) {
		value, data := o.Pack()
		fmt.Fprintf(&b, "outcome %s %x %x\n", name, value, data)
	}
	for code := range CodeTooManyQuotas { // what follows is of level 2
		pack(code.String(), Outcome{Code: code, Token: 7})
	}
	pack("with all", Outcome{Code: CodeHeld, Lost: []uint64{1, 300}, Holder: &h, Waiters: 8})
	pack("of a batch", Outcome{Each: []Outcome{{}, {Code: CodeGranted, Token: TokenMax}, {Code: CodeHeld, Holder: &h, Waiters: 1}}})
	for kind := range EventQuota {
		fmt.Fprintf(&b, "event %v %x\n", kind, AppendEvents(nil, []Event{{Index: 1, Kind: kind}}))
	}
	for reason := range reasonEnd {
		fmt.Fprintf(&b, "reason %v %x\n", reason, AppendEvents(nil, []Event{{Reason: reason}}))
	}
	fmt.Fprintf(&b, "event with all %x\n", AppendEvents(nil, []Event{{
		Index: 1 << 40, Kind: EventGranted, Session: h.Session, Request: 2, Name: "x", Token: 3, Waited: true, TTL: time.Minute,
		Reason: ReasonForced, Detail: "why", NodeName: "alpha", Terms: h.Terms, Value: []byte{},
	}, {}}))
	frozen.Check(t, "testdata/outcomes.v1", []byte(b.String()))
}

// The golden file holds the bytes of version 1: they are in the logs of running groups.
func TestTheEncodingOfCommandsStaysAsItWas(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	for _, c := range everyCommand() {
		if Needs(Encode(c)) == 1 {
			fmt.Fprintf(&b, "%T %x\n", c, Encode(c))
		}
	}
	frozen.Check(t, "testdata/commands.v1", []byte(b.String()))
}

func TestUnknownFieldsAreSkippedAndUnknownOperationsAreNot(t *testing.T) {
	t.Parallel()
	newer := append(Encode(Level{7}), 0xf8, 0x7f, 1) // field 2047
	if c, err := Decode(newer); err != nil || c != (Level{7}) {
		t.Errorf("%+v, %v", c, err)
	}
	for _, b := range [][]byte{{1, 99}, {2, 1}, {0, 0}} {
		if _, err := Decode(b); !errors.Is(err, ErrUnsupported) {
			t.Errorf("%v: %v", b, err)
		}
	}
}

func TestMalformedCommandsAreRefused(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"empty":                   "",
		"no operation":            "01",
		"tag cut short":           "010380",
		"number cut short":        "010308",
		"text instead of number":  "01030a0161",
		"number instead of text":  "01041801",
		"node of 3 bytes":         "01040a03616263",
		"session cut short":       "010b0a0110",
		"length beyond the end":   "01041a7f61",
		"field number 0":          "010300",
		"limit above 32 bits":     "0106408080808010",
		"bootstrap above 32 bits": "0101188080808010",
		"priority above 32 bits":  "0106508080808020",
		"packed number cut short": "01071a0180",
		"group that never ends":   "01030b",
	} {
		b, err := hex.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		if c, err := Decode(b); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %+v, %v", name, c, err)
		}
	}
}

func TestAnOutcomeOfAnUnknownCodeIsRefused(t *testing.T) {
	t.Parallel()
	for _, value := range []uint64{uint64(codeEnd), 255, (TokenMax + 1) << 8} {
		if o, err := Unpack(value, nil); !errors.Is(err, ErrMalformed) {
			t.Errorf("%#x: %+v, %v", value, o, err)
		}
	}
}

func TestEveryCodeKindAndReasonHasAName(t *testing.T) {
	t.Parallel()
	for c := range codeEnd {
		if strings.Contains(c.String(), "(") {
			t.Errorf("code %d", c)
		}
	}
	for k := EventBorn; k <= EventRested; k++ {
		if strings.Contains(k.String(), "(") {
			t.Errorf("event %d", k)
		}
	}
	for r := ReasonNone; r <= ReasonAbandoned; r++ {
		if strings.Contains(r.String(), "(") {
			t.Errorf("reason %d", r)
		}
	}
	unknown := fmt.Sprint(Code(99), EventKind(99), Reason(99), Mode(99), RequestState(99))
	if unknown != "code(99) event(99) reason(99) mode(99) request(99)" {
		t.Error(unknown)
	}
}

func TestANodeIDIsAUUID(t *testing.T) {
	t.Parallel()
	const text = "01234567-89ab-cdef-0123-456789abcdef"
	n, err := ParseNode(text)
	if err != nil || n.String() != text {
		t.Fatalf("%v, %v", n, err)
	}
	for _, bad := range []string{"", "x", text[1:], text + "0", strings.Replace(text, "-", "0", 1), strings.Replace(text, "f", "g", 1)} {
		if _, err := ParseNode(bad); err == nil {
			t.Errorf("%q is taken for a UUID", bad)
		}
	}
}
