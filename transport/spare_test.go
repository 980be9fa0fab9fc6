package transport

import (
	"errors"
	"io"
	"net"
	"syscall"
	"testing"
)

// purse is a process with so many descriptors left.
type purse struct{ left int }

func (p *purse) take() error {
	if p.left == 0 {
		return syscall.EMFILE
	}
	p.left--
	return nil
}

// taken is something that holds a descriptor of the purse.
type taken struct {
	net.Conn
	from   *purse
	closed bool
}

func (c *taken) Close() error {
	if !c.closed {
		c.from.left++
	}
	c.closed = true
	return nil
}

func (p *purse) open() (io.Closer, error) {
	if err := p.take(); err != nil {
		return nil, err
	}
	return &taken{from: p}, nil
}

func (p *purse) connect() (net.Conn, error) {
	if err := p.take(); err != nil {
		return nil, err
	}
	return &taken{from: p}, nil
}

func TestConnectionsAreMadeWithSpareDescriptorsWhenThereAreNoOthers(t *testing.T) {
	t.Parallel()
	p := &purse{left: sparesMax}
	s := &spares{open: p.open}
	s.fill()
	var made []net.Conn
	for range sparesMax {
		c, err := s.with(p.connect)
		if err != nil {
			t.Fatal(err)
		}
		made = append(made, c)
	}
	if _, err := s.with(p.connect); !errors.Is(err, syscall.EMFILE) {
		t.Errorf("with all spares lent: %v", err)
	}
	for range 2 { // closing twice gives back once
		for _, c := range made {
			c.Close()
		}
	}
	if len(s.kept) != sparesMax || s.lent != 0 || p.left != 0 {
		t.Errorf("%d are set aside again, %d are lent, %d are left", len(s.kept), s.lent, p.left)
	}
	s.close()
	if p.left != sparesMax {
		t.Errorf("%d descriptors are left open", sparesMax-p.left)
	}
	s.fill()
	if p.left != sparesMax {
		t.Error("descriptors are set aside after the end")
	}
}

func TestOtherErrorsCostNoSpareDescriptors(t *testing.T) {
	t.Parallel()
	p := &purse{left: 100}
	s := &spares{open: p.open}
	s.fill()
	if _, err := s.with(func() (net.Conn, error) { return nil, syscall.ECONNREFUSED }); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Error(err)
	}
	p.left = 0
	fails := 0
	if _, err := s.with(func() (net.Conn, error) {
		if fails++; fails == 1 {
			return nil, syscall.EMFILE
		}
		return nil, syscall.ECONNREFUSED
	}); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Error(err)
	}
	if len(s.kept) != sparesMax {
		t.Errorf("%d are set aside", len(s.kept))
	}
}
