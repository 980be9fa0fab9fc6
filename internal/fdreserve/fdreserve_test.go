package fdreserve

import (
	"errors"
	"io"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// purse is a process with so many descriptors left.
type purse struct{ left int }

func (p *purse) open() (io.Closer, error) {
	if p.left == 0 {
		return nil, syscall.EMFILE
	}
	p.left--
	return taken{p}, nil
}

// taken is something that holds a descriptor of the purse.
type taken struct{ from *purse }

func (c taken) Close() error {
	c.from.left++
	return nil
}

// made is something that was made with a set, and is closed as those do who use one.
type made struct {
	io.Closer
	back func()
}

func (m made) close() {
	m.Close()
	if m.back != nil {
		m.back()
	}
}

func (p *purse) make(s *Set) (m made, err error) {
	m.back, err = s.Do(func() error { m.Closer, err = p.open(); return err })
	return m, err
}

func TestASpareDescriptorIsUsedWhenThereIsNoOtherAndSetAsideAgainAfterwards(t *testing.T) {
	t.Parallel()
	p := &purse{left: 9}
	s := NewSet(8, p.open)
	var all []made
	for i := range 9 {
		m, err := p.make(s)
		if err != nil {
			t.Fatal(err)
		}
		if borrowed := m.back != nil; borrowed != (i > 0) {
			t.Errorf("number %d was made with a spare: %v", i, borrowed)
		}
		all = append(all, m)
	}
	if _, err := p.make(s); !errors.Is(err, syscall.EMFILE) || s.Short() {
		t.Errorf("with all spares lent: %v, short: %v", err, s.Short())
	}
	for _, m := range all {
		m.close()
	}
	if len(s.kept) != 8 || s.lent != 0 || p.left != 1 {
		t.Errorf("%d are set aside again, %d are lent, %d are left", len(s.kept), s.lent, p.left)
	}
	last, _ := p.open() // so that the next one is lent
	m, err := p.make(s)
	if err != nil || m.back == nil {
		t.Fatalf("not lent: %v", err)
	}
	s.Close()
	m.close()
	last.Close()
	if p.left != 9 {
		t.Errorf("%d descriptors are still set aside after the end", 9-p.left)
	}
}

func TestOtherErrorsCostNoSpareDescriptors(t *testing.T) {
	t.Parallel()
	p := &purse{left: 8}
	s := NewSet(8, p.open)
	defer s.Close()
	for _, errs := range [][]error{{syscall.ECONNREFUSED}, {syscall.EMFILE, syscall.ECONNREFUSED}} {
		calls := 0
		_, err := s.Do(func() error { calls++; return errs[calls-1] })
		if !errors.Is(err, syscall.ECONNREFUSED) || calls != len(errs) {
			t.Errorf("%v after %d calls", err, calls)
		}
	}
	if len(s.kept) != 8 || s.lent != 0 {
		t.Errorf("%d are set aside, %d are lent", len(s.kept), s.lent)
	}
}

func TestTheNextSpareIsTriedWhenSomebodyElseTookWhatWasFreed(t *testing.T) {
	t.Parallel()
	p := &purse{left: 3}
	s := NewSet(3, p.open)
	defer s.Close()
	var m made
	tries := 0
	back, err := s.Do(func() (err error) {
		if tries++; tries == 2 { // the first descriptor freed is gone at once
			p.left--
		}
		m.Closer, err = p.open()
		return err
	})
	m.back = back
	if err != nil || tries != 3 || back == nil {
		t.Fatalf("after %d tries: %v", tries, err)
	}
	m.close()
	if len(s.kept) != 2 || s.lent != 0 || p.left != 0 {
		t.Errorf("%d are set aside, %d are lent, %d are left", len(s.kept), s.lent, p.left)
	}
}

// A set that had lost descriptors during one shortage had them again only when something else was
// opened: in a quiet process, not before the next shortage.
func TestWhatIsMissingIsSetAsideAsSoonAsThereAreDescriptorsAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &purse{left: 2}
		s := NewSet(8, p.open)
		after := func(pause time.Duration, left, kept int) { // the pause, left are left and kept are set aside; 10 come free
			t.Helper()
			time.Sleep(pause)
			if short := s.Short(); short != (kept < 8) {
				t.Errorf("short: %v, with %d of 8 set aside", short, kept)
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			if p.left != left || len(s.kept) != kept {
				t.Errorf("%d are left and %d set aside, not %d and %d", p.left, len(s.kept), left, kept)
			}
			p.left += 10
		}
		after(10*refillPause, 0, 2)
		after(2*refillPause, 4, 8)
		after(time.Hour, 14, 8)
		s.Close()
		after(time.Hour, 32, 0)

		p = &purse{left: 2}
		s = NewSet(8, p.open)
		s.Close() // while some are missing
		after(time.Hour, 2, 0)
		after(time.Hour, 12, 0)
	})
}

func TestNobodysSetHasNone(t *testing.T) {
	t.Parallel()
	var s *Set
	p := &purse{left: 1}
	if m, err := p.make(s); err != nil || m.back != nil {
		t.Errorf("with a descriptor: %v", err)
	}
	if _, err := p.make(s); !Lacking(err) {
		t.Errorf("without: %v", err)
	}
	s.Close()
	if s.Short() {
		t.Error("it is short of what it never had")
	}
}
