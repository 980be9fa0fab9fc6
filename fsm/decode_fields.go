package fsm

import "google.golang.org/protobuf/encoding/protowire"

func (c *Birth) decode(b []byte) error {
	f := fields{rest: b}
	for f.next() {
		switch f.number {
		case 1:
			c.Cluster = f.id()
		case 2:
			c.Counter = f.uint64()
		case 3:
			c.Bootstrap = f.uint32()
		case 4:
			c.Voters = f.uint32()
		}
	}
	return f.err
}

func (c *Serve) decode(b []byte) error {
	f := fields{rest: b}
	for f.next() {
	}
	return f.err
}

func (c *Level) decode(b []byte) error {
	f := fields{rest: b}
	for f.next() {
		if f.number == 1 {
			c.Level = f.uint64()
		}
	}
	return f.err
}

func (c *Hello) decode(b []byte) error {
	f := fields{rest: b}
	for f.next() {
		switch f.number {
		case 1:
			c.Node = f.id()
		case 2:
			c.Incarnation = f.uint64()
		case 3:
			c.Name = f.text()
		case 4, 5, 6:
			c.Place.decodeField(&f, f.number-4)
		}
	}
	return f.err
}

// decodeField reads one of the three fields of a place.
func (p *Place) decodeField(f *fields, which protowire.Number) {
	switch which {
	case 0:
		p.Boot = f.text()
	case 1:
		p.Device = f.uint64()
	case 2:
		p.File = f.uint64()
	}
}

func (c *Goodbye) decode(b []byte) error {
	f := fields{rest: b}
	for f.next() {
		switch f.number {
		case 1:
			c.Node = f.id()
		case 2:
			c.Incarnation = f.uint64()
		case 3:
			c.Departure = Departure(f.uint8())
		}
	}
	return f.err
}

func (c *Remove) decode(b []byte) error {
	f := fields{rest: b}
	for f.next() {
		switch f.number {
		case 1:
			c.Node = f.id()
		case 2:
			c.Incarnation = f.uint64()
		case 3:
			c.Since = f.uint64()
		}
	}
	return f.err
}

func (c *Revoke) decode(b []byte) error {
	f := fields{rest: b}
	for f.next() {
		switch f.number {
		case 1:
			c.Node = f.id()
		case 2:
			c.Upto = f.uint64()
		case 3:
			c.Reason = f.text()
		}
	}
	return f.err
}

func (c *Acquire) decode(b []byte) error {
	f := fields{rest: b}
	for f.next() {
		switch f.number {
		case 1:
			c.Session = f.session()
		case 2:
			c.TTL = f.millis()
		case 3:
			c.Request = f.uint64()
		case 4:
			c.Acked = f.uint64()
		case 5:
			c.Name = f.text()
		case 6:
			c.Wait = f.bool()
		case 7:
			c.Mode = f.mode()
		case 8:
			c.Limit = f.uint32()
		case 9:
			c.Weight = f.uint32()
		case 10:
			c.Priority = f.sint32()
		case 11:
			c.Label = f.text()
		case 12:
			c.HasValue, c.Value = true, f.blob()
		case 13:
			c.Others = append(c.Others, f.text())
		case 14:
			c.Delay = f.millis()
		case 15:
			c.While = f.appendUints(c.While)
		case 16:
			c.Refuse = f.bool()
		case 17:
			c.HasValue = c.HasValue || f.bool()
		case 18:
			c.Election = f.bool()
		}
	}
	return f.err
}

func (c *Withdraw) decode(b []byte) error {
	f := fields{rest: b}
	for f.next() {
		switch f.number {
		case 1:
			c.Session = f.session()
		case 2:
			c.Acked = f.uint64()
		case 3:
			c.Requests = f.appendUints(c.Requests)
		}
	}
	return f.err
}

func (c *Release) decode(b []byte) error {
	f := fields{rest: b}
	for f.next() {
		switch f.number {
		case 1:
			c.Session = f.session()
		case 2:
			c.Acked = f.uint64()
		case 3:
			c.Grants = append(c.Grants, f.grant())
		case 4:
			c.Rest = f.millis()
		case 5:
			c.Close = f.bool()
		}
	}
	return f.err
}

func (f *fields) grant() (g Grant) {
	in := fields{rest: f.message()}
	for in.next() {
		switch in.number {
		case 1:
			g.Name = in.text()
		case 2:
			g.Token = in.uint64()
		}
	}
	f.check(in.err)
	return g
}

func (c *SetValue) decode(b []byte) error {
	f := fields{rest: b}
	for f.next() {
		switch f.number {
		case 1:
			c.Session = f.session()
		case 2:
			c.Request = f.uint64()
		case 3:
			c.Acked = f.uint64()
		case 4:
			c.Name = f.text()
		case 5:
			c.Token = f.uint64()
		case 6:
			c.Value = f.blob()
		}
	}
	return f.err
}

func (c *Keep) decode(b []byte) error {
	f := fields{rest: b}
	for f.next() {
		switch f.number {
		case 1:
			c.Node = f.id()
		case 2:
			c.Incarnation = f.uint64()
		case 3:
			c.Seq = f.uint64()
		case 4:
			c.Lowest = f.uint64()
		case 5:
			c.Sessions = f.appendUints(c.Sessions)
		case 6:
			c.TTL = f.millis()
		}
	}
	return f.err
}

func (c *CloseSession) decode(b []byte) error {
	f := fields{rest: b}
	for f.next() {
		switch f.number {
		case 1:
			c.Session = f.session()
		case 2:
			c.Lost = f.bool()
		}
	}
	return f.err
}

func (c *Expire) decode(b []byte) error {
	f := fields{rest: b}
	for f.next() {
		switch f.number {
		case 1:
			c.Session = f.session()
		case 2:
			c.Renewed = f.uint64()
		}
	}
	return f.err
}

func (c *ForceRelease) decode(b []byte) error {
	f := fields{rest: b}
	for f.next() {
		switch f.number {
		case 1:
			c.Name = f.text()
		case 2:
			c.Token = f.uint64()
		case 3:
			c.Reason = f.text()
		}
	}
	return f.err
}

func (c *Finish) decode(b []byte) error {
	f := fields{rest: b}
	for f.next() {
		switch f.number {
		case 1:
			c.Session = f.session()
		case 2:
			c.Acked = f.uint64()
		case 3:
			c.Name = f.text()
		case 4:
			c.Token = f.uint64()
		case 5:
			c.Keep = f.millis()
		}
	}
	return f.err
}

func (c *Turn) decode(b []byte) error {
	f := fields{rest: b}
	for f.next() {
		switch f.number {
		case 1:
			c.Keep = f.millis()
		case 2:
			c.Last = f.uint64()
		}
	}
	return f.err
}

func (c *Sweep) decode(b []byte) error {
	f := fields{rest: b}
	for f.next() {
		switch f.number {
		case 1:
			c.Keep = f.millis()
		case 2:
			c.Upto = f.uint64()
		}
	}
	return f.err
}

func (c *EndRest) decode(b []byte) error {
	f := fields{rest: b}
	for f.next() {
		switch f.number {
		case 1:
			c.Name = f.text()
		case 2:
			c.Token = f.uint64()
		}
	}
	return f.err
}
