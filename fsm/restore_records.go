package fsm

import (
	"fmt"
	"math"
)

// partOf is the place of a claim in its set, from 1, and how many there are.
type partOf struct{ at, of uint64 }

// member puts a claim in its place in its set.
func (in *restorer) member(c *claim, part partOf) error {
	key := request{opened: c.owner.opened, number: c.request}
	all := in.sets[key]
	if all == nil {
		if part.of > SetMax {
			return fmt.Errorf("set of %d: %w", part.of, ErrMalformed)
		}
		all = &set{claims: make([]*claim, part.of)}
		in.sets[key] = all
	}
	if uint64(len(all.claims)) != part.of || part.at == 0 || part.at > part.of || all.claims[part.at-1] != nil {
		return fmt.Errorf("claim %d of %d of a set: %w", part.at, part.of, ErrMalformed)
	}
	all.claims[part.at-1] = c
	c.more.set = all
	return nil
}

// whole tests that no set lacks a claim.
func (in *restorer) whole() error {
	for _, all := range in.sets {
		for _, c := range all.claims {
			if c == nil {
				return fmt.Errorf("a set lacks a claim: %w", ErrMalformed)
			}
		}
	}
	return nil
}

func (in *restorer) rest(b []byte) error {
	r := &rest{}
	f := fields{rest: b}
	for f.next() {
		switch f.number {
		case 1:
			r.name = f.text()
		case 2:
			r.token = f.uint64()
		case 3:
			r.since = f.uint64()
		case 4:
			r.millis = f.uint64()
		case 5:
			r.mode = f.mode()
		case 6:
			r.weight = f.uint32()
		case 7:
			r.limit = f.uint32()
		}
	}
	l, ok := in.locks.Get(r.name)
	if !ok || l.resting == math.MaxUint16 {
		return fmt.Errorf("rest of no lock: %w", ErrMalformed)
	}
	in.occupy(l, r)
	return f.err
}

func (in *restorer) owner(b []byte) error {
	o := &owner{}
	f := fields{rest: b}
	for f.next() {
		switch f.number {
		case 1:
			o.id = f.session()
		case 2:
			o.opened = f.uint64()
		case 3:
			o.nodeName = f.text()
		}
	}
	in.owners = append(in.owners, o)
	return f.err
}

func (in *restorer) ownerAt(place uint64) (*owner, error) {
	if place >= uint64(len(in.owners)) {
		return nil, fmt.Errorf("owner %d of %d: %w", place, len(in.owners), ErrMalformed)
	}
	return in.owners[place], nil
}

func (in *restorer) pastGrant(b []byte) (err error) {
	var g pastGrant
	name, place := "", uint64(0)
	f := fields{rest: b}
	for f.next() {
		switch f.number {
		case 1:
			name = f.text()
		case 2:
			place = f.uint64()
		case 3:
			g.label = f.text()
		case 4:
			g.token = f.uint64()
		case 5:
			g.granted = f.uint64()
		case 6:
			g.ended = f.uint64()
		case 7:
			g.mode = f.mode()
		case 8:
			g.weight = f.uint32()
		case 9:
			g.kind = EventKind(f.uint8())
		case 10:
			g.reason = Reason(f.uint8())
		case 11:
			g.detail = f.text()
		}
	}
	if f.err != nil {
		return f.err
	}
	if g.owner, err = in.ownerAt(place); err != nil {
		return err
	}
	in.past.put(in.epoch, name, g)
	return nil
}

func (in *restorer) class(b []byte) error {
	var k class
	keep := uint64(0)
	f := fields{rest: b}
	for f.next() {
		switch f.number {
		case 1:
			keep = f.uint64()
		case 2:
			k.turns = f.appendUints(k.turns)
		}
	}
	in.classes.Set(keep, k)
	return f.err
}

func (in *restorer) key(b []byte) (err error) {
	r := &onceRecord{}
	place := uint64(0)
	f := fields{rest: b}
	for f.next() {
		switch f.number {
		case 1:
			r.name = onceMark + f.text()
		case 2:
			place = f.uint64()
		case 3:
			r.token = f.uint64()
		case 4:
			r.index = f.uint64()
		case 5:
			r.keep = f.uint64()
		}
	}
	if f.err != nil {
		return f.err
	}
	if r.owner, err = in.ownerAt(place); err != nil {
		return err
	}
	k, ok := in.classes.Get(r.keep)
	if !ok {
		return fmt.Errorf("key of no class: %w", ErrMalformed)
	}
	k.count++
	in.classes.Set(r.keep, k)
	in.keys.Set(r)
	in.aged.Set(r)
	return nil
}

func (in *restorer) teardown(b []byte) error {
	var t teardown
	f := fields{rest: b}
	for f.next() {
		switch f.number {
		case 1:
			t.id = f.session()
		case 2:
			t.began = f.uint64()
		case 3:
			t.waits = f.bool()
		case 4:
			t.from = f.uint64()
		case 5:
			t.upto = f.uint64()
		case 6:
			t.number = f.uint64()
		case 7:
			t.after = f.uint64()
		case 8:
			t.how.kind = EventKind(f.uint8())
		case 9:
			t.how.reason = Reason(f.uint8())
		case 10:
			t.how.detail = f.text()
		case 11:
			t.at = f.uint64()
		}
	}
	in.teardowns.Set(t)
	return f.err
}
