package fsm

import "google.golang.org/protobuf/encoding/protowire"

// The fields of each command, as fsm.proto says. Numbers are never reused.

func (c *Birth) fields(f *codec) {
	f.id(1, &c.Cluster)
	f.uint(2, &c.Counter)
	narrow(f, 3, &c.Bootstrap)
	narrow(f, 4, &c.Voters)
}

func (c *Serve) fields(*codec) {}

func (c *Level) fields(f *codec) { f.uint(1, &c.Level) }

func (c *Hello) fields(f *codec) {
	f.node(1, &c.Node)
	f.uint(2, &c.Incarnation)
	f.text(3, &c.Name)
	c.Place.fields(f, 4)
	f.uint(7, &c.Level)
}

// fields are three, from number on.
func (p *Place) fields(f *codec, number protowire.Number) {
	f.text(number, &p.Boot)
	f.uint(number+1, &p.Device)
	f.uint(number+2, &p.File)
}

func (c *Goodbye) fields(f *codec) {
	f.node(1, &c.Node)
	f.uint(2, &c.Incarnation)
	narrow(f, 3, &c.Departure)
}

func (c *Remove) fields(f *codec) {
	f.node(1, &c.Node)
	f.uint(2, &c.Incarnation)
	f.uint(3, &c.Since)
}

func (c *Revoke) fields(f *codec) {
	f.node(1, &c.Node)
	f.uint(2, &c.Upto)
	f.text(3, &c.Reason)
}

func (c *Acquire) fields(f *codec) {
	f.session(1, &c.Session)
	f.millis(2, &c.TTL)
	f.uint(3, &c.Request)
	f.uint(4, &c.Acked)
	f.text(5, &c.Name)
	f.bool(6, &c.Wait)
	c.Terms.ofAcquire(f)
	value := c.Value
	if !c.HasValue {
		value = nil
	}
	f.blob(12, &value)
	f.texts(othersField, &c.Others)
	f.millis(14, &c.Delay)
	f.uints(15, &c.While)
	f.bool(16, &c.Refuse)
	none := f.writes && c.HasValue && value == nil
	f.bool(17, &none)
	c.Value, c.HasValue = value, c.HasValue || none || value != nil
	f.bool(18, &c.Election)
}

func (c *Withdraw) fields(f *codec) {
	f.session(1, &c.Session)
	f.uint(2, &c.Acked)
	f.uints(3, &c.Requests)
}

func (c *Release) fields(f *codec) {
	f.session(1, &c.Session)
	f.uint(2, &c.Acked)
	f.grants(grantsField, &c.Grants)
	f.millis(4, &c.Rest)
	f.bool(5, &c.Close)
}

func (c *SetValue) fields(f *codec) {
	f.session(1, &c.Session)
	f.uint(2, &c.Request)
	f.uint(3, &c.Acked)
	f.text(4, &c.Name)
	f.uint(5, &c.Token)
	f.blob(6, &c.Value)
}

func (c *Keep) fields(f *codec) {
	f.node(1, &c.Node)
	f.uint(2, &c.Incarnation)
	f.uint(3, &c.Seq)
	f.uint(4, &c.Lowest)
	f.uints(5, &c.Sessions)
	f.millis(6, &c.TTL)
}

func (c *CloseSession) fields(f *codec) {
	f.session(1, &c.Session)
	f.bool(2, &c.Lost)
}

func (c *Expire) fields(f *codec) {
	f.session(1, &c.Session)
	f.uint(2, &c.Renewed)
}

func (c *ForceRelease) fields(f *codec) {
	f.text(1, &c.Name)
	f.uint(2, &c.Token)
	f.text(3, &c.Reason)
}

func (c *Finish) fields(f *codec) {
	f.session(1, &c.Session)
	f.uint(2, &c.Acked)
	f.text(3, &c.Name)
	f.uint(4, &c.Token)
	f.millis(5, &c.Keep)
}

func (c *Turn) fields(f *codec) {
	f.millis(1, &c.Keep)
	f.uint(2, &c.Last)
}

func (c *Sweep) fields(f *codec) {
	f.millis(1, &c.Keep)
	f.uint(2, &c.Upto)
}

func (c *EndRest) fields(f *codec) {
	f.text(1, &c.Name)
	f.uint(2, &c.Token)
}

func (c *Raise) fields(f *codec) { f.uint(1, &c.Counter) }

func (c *RaiseTTL) fields(f *codec) { f.millis(1, &c.TTL) }

func (c *Continue) fields(f *codec) { f.uint(1, &c.Last) }

func (c *Forget) fields(f *codec) {
	f.text(1, &c.Name)
	f.uint(2, &c.Token)
}

func (c *Ask) fields(f *codec) {
	f.text(1, &c.Name)
	f.uint(2, &c.Token)
	f.text(3, &c.Reason)
}

func (c *Evict) fields(f *codec) {
	f.node(1, &c.Node)
	f.uint(2, &c.Seen)
	f.text(3, &c.Reason)
	narrow(f, 4, &c.Refusal)
}

func (c *Silent) fields(f *codec) {
	f.uint(2, &c.Seen)
	messages(f, 1, &c.Nodes, (*Silence).fields)
}

func (s *Silence) fields(f *codec) {
	f.node(1, &s.Node)
	f.millis(2, &s.For)
}
