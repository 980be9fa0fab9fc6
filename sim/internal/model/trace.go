package model

import (
	"fmt"
	"strings"

	"github.com/holdfast-go/holdfast/fsm"
)

// trace is what a person reads of a run.
type trace struct{ lines []string }

// tell adds a line. Callers on hot paths look first whether there is a trace.
func (w *world) tell(format string, args ...any) {
	if w.trace != nil {
		w.trace.lines = append(w.trace.lines, fmt.Sprintf("%10.4fs  ", w.now.Seconds())+fmt.Sprintf(format, args...))
	}
}

// lockNames are the names of a plan's locks: letters, and Once keys among them.
func lockNames(kinds []Kind) []string {
	names := make([]string, len(kinds))
	for i, k := range kinds {
		if names[i] = string(rune('a' + i)); k.Once {
			names[i] = fsm.OnceName(names[i])
		}
	}
	return names
}

func (w *world) lockName(i int) string { return w.names[i] }

func (w *world) limitOf(name string) uint32 {
	if i := int(name[0]) - 'a'; i >= 0 && i < len(w.plan.Locks) {
		return w.plan.Locks[i].Permits
	}
	return 0
}

// brief is a session as node/incarnation/number.
func brief(id fsm.SessionID) string {
	return fmt.Sprintf("%d/%d/%d", int(id.Node[0])-1, id.Incarnation, id.Number)
}

func describe(c fsm.Command) string {
	switch c := c.(type) {
	case fsm.Acquire:
		wait := "try"
		if c.Wait {
			wait = "wait"
		}
		if c.Delay > 0 {
			wait += fmt.Sprint(" delay ", c.Delay)
		}
		return fmt.Sprintf("Acquire(%s request %d acked %d: %q %v %s)", brief(c.Session), c.Request, c.Acked, append([]string{c.Name}, c.Others...), c.Mode, wait)
	case fsm.Withdraw:
		return fmt.Sprintf("Withdraw(%s requests %v)", brief(c.Session), c.Requests)
	case fsm.Release:
		rest := ""
		if c.Rest > 0 {
			rest = fmt.Sprint(" rest ", c.Rest)
		}
		if c.Close {
			rest += " and the session"
		}
		return fmt.Sprintf("Release(%s %v%s)", brief(c.Session), c.Grants, rest)
	case fsm.SetValue:
		return fmt.Sprintf("SetValue(%s request %d: %s token %d %q)", brief(c.Session), c.Request, c.Name, c.Token, c.Value)
	case fsm.Finish:
		return fmt.Sprintf("Finish(%s %q token %d keep %v)", brief(c.Session), c.Name, c.Token, c.Keep)
	case fsm.Keep:
		return fmt.Sprintf("Keep(%d/%d sessions %v, number %d, lowest %d)", int(c.Node[0])-1, c.Incarnation, c.Sessions, c.Seq, c.Lowest)
	case fsm.Expire:
		return fmt.Sprintf("Expire(%s renewed at %d)", brief(c.Session), c.Renewed)
	case fsm.CloseSession:
		return fmt.Sprintf("CloseSession(%s)", brief(c.Session))
	case fsm.Hello:
		return fmt.Sprintf("Hello(%d/%d)", int(c.Node[0])-1, c.Incarnation)
	case fsm.Goodbye:
		return fmt.Sprintf("Goodbye(%d/%d)", int(c.Node[0])-1, c.Incarnation)
	}
	return strings.TrimPrefix(fmt.Sprintf("%T%+v", c, c), "fsm.")
}

func describeOutcome(o fsm.Outcome) string {
	s := o.Code.String()
	if o.Token != 0 {
		s += fmt.Sprint(" token ", o.Token)
	}
	if len(o.Lost) > 0 {
		s += fmt.Sprint(" lost ", o.Lost)
	}
	return s
}

func describeEvents(events []fsm.Event) (s string) {
	for i := range events {
		e := &events[i]
		switch e.Kind {
		case fsm.EventGranted, fsm.EventReleased, fsm.EventLost, fsm.EventForced:
			s += fmt.Sprintf("; %q %v: %s token %d", e.Name, e.Kind, brief(e.Session), e.Token)
		case fsm.EventResting, fsm.EventRested:
			s += fmt.Sprintf("; %q %v: token %d", e.Name, e.Kind, e.Token)
		case fsm.EventQueued, fsm.EventWithdrawn:
			s += fmt.Sprintf("; %q %v: %s", e.Name, e.Kind, brief(e.Session))
		case fsm.EventSessionEnded:
			s += fmt.Sprintf("; session %s ended (%v)", brief(e.Session), e.Reason)
		}
	}
	return s
}
