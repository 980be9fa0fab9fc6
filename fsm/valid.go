package fsm

import (
	"unicode"
	"unicode/utf8"
)

// validName says whether s can name a lock: 1 to NameBytesMax bytes of UTF-8 without control
// characters.
func validName(s string) bool { return s != "" && validText(s, NameBytesMax) }

// validLock says whether s can be in a command: a lock's name, or a Once key with its mark.
func validLock(s string) bool {
	if isOnce(s) {
		return validName(s[len(onceMark):])
	}
	return validName(s)
}

// validText says whether s is UTF-8 without control characters, of at most limit bytes.
func validText(s string, limit int) bool {
	if len(s) > limit {
		return false
	}
	for i := 0; i < len(s); i++ {
		if s[i] >= utf8.RuneSelf {
			return validRunes(s[i:])
		}
		if s[i] < ' ' || s[i] == 0x7f {
			return false
		}
	}
	return true
}

func validRunes(s string) bool {
	if !utf8.ValidString(s) {
		return false
	}
	for _, r := range s {
		if unicode.IsControl(r) {
			return false
		}
	}
	return true
}

// validLabel says whether s can be a label or a reason: people's words, line breaks included.
func validLabel(s string) bool { return len(s) <= LabelBytesMax && utf8.ValidString(s) }

func (id *SessionID) valid() bool {
	return id.Node != (Node{}) && id.Incarnation != 0 && id.Number != 0
}

func (c *Acquire) valid() bool {
	if !c.Session.valid() || c.Request == 0 || !validLock(c.Name) || !validLabel(c.Label) ||
		len(c.Value) > ValueBytesMax || c.TTL > TTLMax || c.TTL < 0 || c.Delay > RestMax || len(c.While) > WhileMax {
		return false
	}
	plain := c.Mode == Exclusive && len(c.Others) == 0
	if isOnce(c.Name) && (!plain || c.Election) || c.Election && !plain || len(c.Others) > 0 && !c.validSet() {
		return false
	}
	if c.Mode == Permit {
		return c.Limit >= 1 && c.Limit <= LimitMax && c.Weight <= c.Limit
	}
	return c.Mode <= Permit && c.Limit == 0 && c.Weight <= 1
}

func (c *Withdraw) valid() bool {
	if len(c.Requests) > ListMax {
		return false
	}
	for _, r := range c.Requests {
		if r == 0 {
			return false
		}
	}
	return c.Session.valid()
}

func (c *SetValue) valid() bool {
	return c.Session.valid() && c.Request != 0 && validLock(c.Name) && len(c.Value) <= ValueBytesMax
}

func (c *Keep) valid() bool {
	if len(c.Sessions) > RenewMax {
		return false
	}
	for _, n := range c.Sessions {
		if n == 0 {
			return false
		}
	}
	timed := c.TTL == 0 || len(c.Sessions) == 1 && c.TTL >= TTLMin && c.TTL <= TTLMax
	return c.Node != (Node{}) && c.Incarnation != 0 && timed
}

func (c *ForceRelease) valid() bool {
	return validLock(c.Name) && c.Reason != "" && validLabel(c.Reason)
}
