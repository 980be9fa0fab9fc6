package fsm

import (
	"fmt"
	"math"
)

// member puts a claim in its place in its set, from 1, of so many.
func (in *restorer) member(c *claim, at, of uint64) error {
	key := request{opened: c.owner.opened, number: c.request}
	all := in.sets[key]
	if all == nil {
		if of > SetMax {
			return fmt.Errorf("set of %d: %w", of, ErrMalformed)
		}
		all = &set{claims: make([]*claim, of)}
		in.sets[key] = all
	}
	if uint64(len(all.claims)) != of || at == 0 || at > of || all.claims[at-1] != nil {
		return fmt.Errorf("claim %d of %d of a set: %w", at, of, ErrMalformed)
	}
	all.claims[at-1] = c
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
	r, x, q := &rest{}, resize{}, Quota{}
	f := reading(b)
	for f.more() {
		r.fields(&f)
		x.fields(&f)
		q.inRest(&f)
	}
	if q != (Quota{}) {
		in.quotas.Set(q)
		return f.err
	}
	l, ok := in.locks.Get(r.name)
	if x != (resize{}) {
		if in.resizes.Set(r.name, x); ok && l.inUse() {
			l.limit = x.limit
		}
		return f.err
	}
	if !ok || l.resting == math.MaxUint16 {
		return fmt.Errorf("rest of no lock: %w", ErrMalformed)
	}
	in.occupy(l, r)
	return f.err
}

func (in *restorer) owner(b []byte) error {
	o := &owner{}
	in.owners = append(in.owners, o)
	return read(b, o)
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
	f := reading(b)
	for f.more() {
		g.fields(&f, &name, &place)
	}
	if f.err != nil {
		return f.err
	}
	if g.owner, err = in.ownerAt(place); err != nil {
		return err
	}
	in.past.put(in.epoch, &in.limits, name, g)
	return nil
}

func (in *restorer) class(b []byte) error {
	var k class
	keep := uint64(0)
	f := reading(b)
	for f.more() {
		k.fields(&f, &keep)
	}
	in.classes.Set(keep, k)
	return f.err
}

func (in *restorer) key(b []byte) (err error) {
	r, key, place := &onceRecord{}, "", uint64(0)
	f := reading(b)
	for f.more() {
		r.fields(&f, &key, &place)
	}
	if f.err != nil {
		return f.err
	}
	r.name = OnceName(key)
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
	err := read(b, &t)
	in.teardowns.Set(t)
	return err
}
