package holdfast

import (
	"net"
	"testing"
)

// A machine whose private address is an IPv6 address could not start with the Bind that README
// shows.
func TestATemplateMayYieldAnIPv6Address(t *testing.T) {
	t.Parallel()
	for bind, want := range map[string]string{
		`{{ "fd00::1:2" }}:7643`:   "[fd00::1:2]:7643",
		`{{ "fe80::1%eth0" }}:0`:   "[fe80::1%eth0]:0",
		`[{{ "fd00::1" }}]:7643`:   "[fd00::1]:7643", // who has always written it so
		`{{ "10.0.0.7" }}:7643`:    "10.0.0.7:7643",
		`{{ "fd00::1" }}:nonsense`: "",
	} {
		got, err := Config{Bind: bind}.bind()
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q, %v", bind, got, err)
		}
	}
	if l, err := net.Listen("tcp", "[::1]:0"); err != nil {
		t.Skip("no IPv6 here")
	} else {
		_ = l.Close()
	}
	c, err := Open(t.Context(), Config{Bind: `{{ "::1" }}:0`})
	if err != nil {
		t.Fatal(err)
	}
	if host, _, _ := net.SplitHostPort(c.Addr()); host != "::1" {
		t.Errorf("it listens at %s", c.Addr())
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}
