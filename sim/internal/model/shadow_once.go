package model

import (
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
)

// record is a Once key that is finished and not forgotten.
type record struct {
	session fsm.SessionID
	token   uint64
	keep    time.Duration
	at      time.Duration // true time of the entry that finished it
}

// unfinished asks whether a name may be claimed: it is no Once key that is finished.
func (sh *shadow) unfinished(name string) {
	if r := sh.keys[name]; r != nil {
		sh.wrong("a finished key is not run again", "%q was finished with token %d, to be kept for %v", name, r.token, r.keep)
	}
}

// remembered takes over what an entry did to the memory of Once keys. No event tells that a key is
// forgotten: the shadow looks which are gone, and asks whether it was time.
func (sh *shadow) remembered(m *fsm.Machine, out fsm.Outcome) {
	switch c := sh.cmd.(type) {
	case fsm.Finish:
		sh.acked(c.Session, c.Acked)
		sh.finished(m, &c, out)
	case fsm.Sweep:
	case fsm.Turn:
		if since := sh.w.now - sh.applied[c.Last]; out.Code == fsm.CodeOK && !sh.w.plan.Wild && since < sh.w.atLeast(fsm.OncePeriod(c.Keep)) {
			sh.wrong("a turn takes its period", "%v after the one before", since)
		}
		return
	default:
		return
	}
	for _, name := range sh.w.names {
		r := sh.keys[name]
		if r == nil {
			continue
		}
		key, _ := fsm.OnceKey(name)
		if by, ok := m.Key(key); ok {
			if by.Token != r.token || by.Session != r.session {
				sh.wrong("who finished a key is remembered", "%q: %v, not token %d", key, by, r.token)
			}
			continue
		}
		delete(sh.keys, name)
		sh.w.forgotten(key, r)
	}
}

func (sh *shadow) finished(m *fsm.Machine, c *fsm.Finish, out fsm.Outcome) {
	ended := slices.ContainsFunc(sh.events, func(e fsm.Event) bool { return e.Kind == fsm.EventReleased && e.Token == c.Token })
	r := sh.keys[c.Name]
	switch {
	case ended:
		_, left := m.Unfinished()
		if l := sh.locks[c.Name]; len(l.holders) > 0 || len(l.waiters) > 0 && !left || out.Code != fsm.CodeOK {
			sh.wrong("a finished key is waited for by nobody", "%v: %v", out.Code, *l)
		}
		sh.keys[c.Name] = &record{c.Session, c.Token, c.Keep, sh.w.now}
	case out.Code == fsm.CodeOK && (r == nil || r.token != c.Token):
		sh.wrong("only its runner finishes a key", "token %d", c.Token)
	case out.Code != fsm.CodeOK && r != nil && r.token == c.Token:
		sh.wrong("who finished a key is told so", "%v for token %d", out.Code, c.Token)
	}
}
