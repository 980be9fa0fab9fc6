package fsm

import (
	"slices"
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
	return c.Session.valid() && c.Request != 0 && validLock(c.Name) && c.Terms.valid(c.Name, len(c.Others) > 0) &&
		len(c.Value) <= ValueBytesMax && c.TTL <= TTLMax && c.TTL >= 0 && len(c.While) <= WhileMax && c.validSet()
}

func (c *Withdraw) valid() bool {
	return c.Session.valid() && len(c.Requests) <= ListMax && !slices.Contains(c.Requests, 0)
}

func (c *SetValue) valid() bool {
	return c.Session.valid() && c.Request != 0 && validLock(c.Name) && len(c.Value) <= ValueBytesMax
}

func (c *Keep) valid() bool {
	timed := c.TTL == 0 || len(c.Sessions) == 1 && c.TTL >= TTLMin && c.TTL <= TTLMax
	return c.Node != (Node{}) && c.Incarnation != 0 && timed &&
		len(c.Sessions) <= RenewMax && !slices.Contains(c.Sessions, 0)
}

func (c *ForceRelease) valid() bool {
	return validLock(c.Name) && c.Reason != "" && validLabel(c.Reason)
}
