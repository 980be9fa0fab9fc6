package recovery

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/autopilot"
	"github.com/holdfast-go/holdfast/internal/datadir"
	"github.com/holdfast-go/holdfast/internal/membership"
	"github.com/holdfast-go/holdfast/transport"
)

var (
	// ErrAlive is in the error where a majority of the former group is in sight.
	ErrAlive = errors.New("holdfast: the group is alive")
	// ErrStrange is in the error where nobody is in sight, and something answers that may be the former group.
	ErrStrange = errors.New("holdfast: what answers at an address of Join does not take this for a node of its fleet")
)

// lookTime is how long a recovery waits for news of the former group, after it has tried every address.
const lookTime = 5 * time.Second

// Search says where the former group may be.
type Search struct {
	Join     []string
	Endpoint transport.Endpoint
	Keys     [][]byte
	Streams  bool
	Version  string
	Logger   *slog.Logger
}

// Look refuses a group of which most voters are in sight of gossip. A node that the source does not
// know counts as a voter: it may have become one since. Gossip is a hint: what it does not see may
// live behind a cut.
func (s Search) Look(ctx context.Context, f Former) error {
	gossip, err := membership.Open(ctx, membership.Config{
		Cluster: f.Cluster, Endpoint: s.Endpoint, Keys: s.Keys, Streams: s.Streams, Join: s.Join, Logger: s.Logger,
		Meta: membership.Meta{Node: datadir.NewID(), Incarnation: 1, Name: "recovery", Version: s.Version, Phase: autopilot.PhaseLeaving},
	})
	if err != nil {
		return fmt.Errorf("holdfast: looking for the former group: %w", err)
	}
	defer gossip.Close()
	tried, patience := gossip.Tried(), (<-chan time.Time)(nil)
	for poll := time.NewTicker(100 * time.Millisecond); ; {
		if err := f.alive(gossip.Members()); err != nil {
			return err
		}
		select {
		case <-poll.C:
		case <-tried: // an address that hangs takes 13 s
			tried, patience = nil, time.After(lookTime)
		case <-patience:
			return s.unseen(gossip)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// unseen refuses where an address of Join answered and nobody was seen: with other secrets, or the name of another
// fleet, the look sees no group that lives. Where no address answers there is nothing to tell from.
func (s Search) unseen(gossip *membership.Gossip) error {
	if len(gossip.Members()) > 1 { // this one is the other
		return nil
	}
	if err := gossip.Strange(); err != nil {
		return fmt.Errorf("%w: it has other secrets or certificates, is of another fleet, hangs, or is no node: correct Secrets, TLS and Join, or stop it; "+
			"or set Unseen if you know that no node of the group runs: %w", ErrStrange, err)
	}
	s.Logger.Warn("no address of Join answers: the recovery goes on, as nobody was seen", "join", s.Join, "error", gossip.JoinError())
	return nil
}

// alive refuses a group of which as many nodes as most voters are among the members of gossip. A standby
// counts, too: it may have become a voter since the directory was written.
func (f Former) alive(members []membership.Member) error {
	var seen []string
	for _, m := range members {
		if m.Local || !m.Here() || !m.Phase.Runs() || m.ClusterID != f.ClusterID {
			continue
		}
		seen = append(seen, fmt.Sprintf("%s (%q at %s)", m.Node, m.Name, m.Addr))
	}
	if 2*len(seen) <= len(f.Voters) || len(seen) == 0 {
		return nil
	}
	return fmt.Errorf("%w: of a group with %d voters these nodes run: %s: do not recover it; if they cannot serve, stop them first",
		ErrAlive, len(f.Voters), strings.Join(seen, ", "))
}
