package recovery

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/autopilot"
	"github.com/holdfast-go/holdfast/internal/datadir"
	"github.com/holdfast-go/holdfast/internal/membership"
	"github.com/holdfast-go/holdfast/transport"
)

// Two of three voters died one after the other, and the standbys took their places after the directory
// was written. They were not counted, and a second group would have granted what theirs grants.
func TestTheStandbysOfBeforeMayBeTheVotersOfNow(t *testing.T) {
	t.Parallel()
	f := Former{Cluster: "fleet", ClusterID: "group", Voters: []string{"a", "b", "c"}}
	runs := func(nodes ...string) (list []membership.Member) {
		for _, node := range nodes {
			list = append(list, membership.Member{
				Meta: membership.Meta{Node: node, ClusterID: f.ClusterID, Phase: autopilot.PhaseRunning}, State: membership.Alive,
			})
		}
		return list
	}
	for _, c := range []struct {
		members []membership.Member
		alive   bool
	}{
		{runs(), false}, {runs("c"), false}, {runs("e"), false},
		{runs("b", "c"), true}, {runs("c", "d", "e"), true}, {runs("d", "e"), true}, {runs("c", "new"), true},
	} {
		if _, err := f.seen(c.members); errors.Is(err, ErrAlive) != c.alive {
			t.Errorf("%d members: %v", len(c.members), err)
		}
	}
}

// look is one look for a former group of three voters, of which one node runs.
type look struct {
	name, cluster string
	secrets       []string // of the look; nil: those of the fleet
	sealed        bool     // the fleet has secrets
	join          string
	also          []string         // further addresses of Join
	another       bool             // the node is in another group of the fleet
	fault         transport.Faults // of the network
	after         time.Duration    // the look has begun
	want          error
}

// The look for the former group sees nobody with forgotten secrets, or under another name, though a majority
// lives: it made a second group without a word.
func TestALookThatIsRefusedRefusesTheRecovery(t *testing.T) {
	t.Parallel()
	const there, stranger = "10.0.0.1:7643", "10.0.0.7:7643"
	secrets := []string{"a secret of the fleet that nobody guesses"}
	for _, c := range []look{
		{name: "other secrets", cluster: "fleet", secrets: []string{"another secret that nobody guesses"}, sealed: true, join: there, want: ErrStrange},
		{name: "no secrets", cluster: "fleet", secrets: []string{}, sealed: true, join: there, want: ErrStrange},
		{name: "another name", cluster: "float", sealed: false, join: there, want: ErrStrange},
		{name: "other secrets, and a cut soon after", cluster: "fleet", secrets: []string{"another secret that nobody guesses"}, sealed: true, join: there, fault: transport.Faults{Cut: true}, after: time.Second, want: ErrStrange},
		{name: "a host behind a cut", cluster: "fleet", sealed: true, join: "10.0.0.2:7643", fault: transport.Faults{Cut: true}},
		{name: "another port", cluster: "fleet", sealed: true, join: "10.0.0.1:7644"},
		{name: "a minority", cluster: "fleet", sealed: true, join: there},
		{name: "a minority, and one that may be the next", cluster: "fleet", sealed: true, join: there, also: []string{stranger}, want: ErrStrange},
		{name: "another group of the fleet", cluster: "fleet", sealed: true, join: there, another: true, want: ErrBeside},
	} {
		synctest.Test(t, func(t *testing.T) {
			network := transport.NewMemory(1)
			open := func(bind, cluster string, secrets []string) (transport.Endpoint, [][]byte) {
				return listen(t, network, bind, cluster, secrets)
			}
			fleets := secrets
			if !c.sealed {
				fleets = nil
			}
			group := datadir.NewID()
			former := Former{Cluster: c.cluster, ClusterID: group, Voters: []string{"a", "b", "c"}}
			if c.another {
				former.ClusterID = datadir.NewID()
			}
			other, _ := open(stranger, "fleet", []string{"the secret of a fleet that is another one"})
			endpoint, keys := open(there, "fleet", fleets)
			node, err := membership.Open(t.Context(), membership.Config{Cluster: "fleet", Endpoint: endpoint, Keys: keys, Meta: membership.Meta{
				Node: datadir.NewID(), Incarnation: 1, Name: "node", Phase: autopilot.PhaseRunning, ClusterID: group,
			}})
			if err != nil {
				t.Fatal(err)
			}
			if c.secrets == nil {
				c.secrets = fleets
			}
			time.AfterFunc(c.after, func() { network.SetFaults("*", "*", c.fault) })
			time.Sleep(time.Nanosecond) // the fault is there when the look begins, unless it comes after
			var said strings.Builder
			own, keys := open("10.0.0.9:7643", c.cluster, c.secrets)
			search := Search{Join: append(c.also, c.join), Endpoint: own, Keys: keys, Logger: slog.New(slog.NewTextHandler(&said, nil))}
			err = search.Look(t.Context(), former)
			if !errors.Is(err, c.want) || err != nil && !strings.Contains(err.Error(), "Unseen") {
				t.Errorf("%s: %v", c.name, err)
			}
			if warned := strings.Contains(said.String(), "nobody was seen"); warned != (c.join != there) {
				t.Errorf("%s: the log says %q", c.name, said.String())
			}
			for _, end := range []func() error{own.Close, node.Close, endpoint.Close, other.Close} {
				if err := end(); err != nil {
					t.Errorf("%s: %v", c.name, err)
				}
			}
			time.Sleep(time.Minute) // memberlist's goroutines end
		})
	}
}

// Where all of many addresses hung, the look took minutes, of which the log said nothing.
func TestALookAtManyAddressesThatHangIsBoundedAndSaysThatItGoesOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		network, said, hosts := transport.NewMemory(1), &strings.Builder{}, 100
		var join []string
		for i := range hosts {
			endpoint, _ := listen(t, network, fmt.Sprintf("10.0.1.%d:7643", i+1), "fleet", nil)
			defer endpoint.Close()
			endpoint.Handle(transport.KindGossip, func(net.Conn) {}) // a process that hangs
			join = append(join, endpoint.Addr())
		}
		own, keys := listen(t, network, "10.0.0.9:7643", "fleet", nil)
		defer own.Close()
		began := time.Now()
		search := Search{Join: join, Endpoint: own, Keys: keys, Logger: slog.New(slog.NewTextHandler(said, nil))}
		err := search.Look(t.Context(), Former{Cluster: "fleet", ClusterID: datadir.NewID(), Voters: []string{"a", "b", "c"}})
		if took := time.Since(began); !errors.Is(err, ErrStrange) || took > time.Minute {
			t.Errorf("after %v: %v", took, err)
		}
		if !strings.Contains(said.String(), "the recovery still looks for the former group") {
			t.Errorf("the log says %q", said)
		}
		time.Sleep(time.Minute) // memberlist's goroutines end
	})
}

// Of five voters one lives, one is dead for gossip and hangs, as its last connections show, and one hangs that
// gossip has never seen: these may be a majority. One that gossip knew counts as any other that hangs, and is
// forgiven only while it is here.
func TestAMemberThatHasFailedAndHangsIsCountedAsOneThatHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		network, group := transport.NewMemory(1), datadir.NewID()
		var endpoints []transport.Endpoint
		var nodes []*membership.Gossip
		var join []string
		for i := range 3 {
			endpoint, keys := listen(t, network, fmt.Sprintf("10.0.0.%d:7643", i+1), "fleet", nil)
			endpoints, join = append(endpoints, endpoint), append(join, endpoint.Addr())
			if i == 2 {
				continue
			}
			node, err := membership.Open(t.Context(), membership.Config{Cluster: "fleet", Endpoint: endpoint, Keys: keys, Join: join[:i], Meta: membership.Meta{
				Node: datadir.NewID(), Incarnation: 1, Name: "node", Phase: autopilot.PhaseRunning, ClusterID: group,
			}})
			if err != nil {
				t.Fatal(err)
			}
			nodes = append(nodes, node)
		}
		time.Sleep(3 * time.Second) // the two know each other
		if err := nodes[1].Close(); err != nil {
			t.Error(err)
		}
		for _, endpoint := range endpoints[1:] {
			endpoint.Handle(transport.KindGossip, func(net.Conn) {})
		}
		own, keys := listen(t, network, "10.0.0.9:7643", "fleet", nil)
		search := Search{Join: join, Endpoint: own, Keys: keys, Logger: slog.New(slog.DiscardHandler)}
		err := search.Look(t.Context(), Former{Cluster: "fleet", ClusterID: group, Voters: []string{"a", "b", "c", "d", "e"}})
		if !errors.Is(err, ErrStrange) {
			t.Error(err)
		}
		for _, end := range append([]func() error{own.Close, nodes[0].Close}, endpoints[0].Close, endpoints[1].Close, endpoints[2].Close) {
			if err := end(); err != nil {
				t.Error(err)
			}
		}
		time.Sleep(time.Minute) // memberlist's goroutines end
	})
}

// listen opens an endpoint with the secrets of a fleet.
func listen(t *testing.T, network *transport.Memory, bind, cluster string, secrets []string) (transport.Endpoint, [][]byte) {
	security, keys, err := transport.Security(cluster, secrets, nil)
	if err != nil {
		t.Fatal(err)
	}
	endpoint, err := network.Listen(t.Context(), bind, transport.Options{TLS: security, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return endpoint, keys
}
