package recovery

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
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
	// ErrBeside is in the error where a node of another group of the fleet is in sight.
	ErrBeside = errors.New("holdfast: the fleet has another group")
	// ErrStrange is in the error where something answers that may be the former group, or the rest of its majority.
	ErrStrange = errors.New("holdfast: what answers at an address of Join does not take this for a node of its fleet")
)

const (
	// lookTime is how long a recovery waits for news of the former group, after it has tried every address.
	lookTime = 5 * time.Second
	// lookDials is how many addresses are tried at once. One that hangs takes 13 s, and gossip tries 256 at
	// most: a look takes a minute at most.
	lookDials = 64
	lookTold  = 10 * time.Second // between two lines of the log
)

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
// know counts as a voter: it may have become one since. It also refuses a group of which a node in sight
// says that it has a majority now. Gossip is a hint: what it does not see may live behind a cut.
func (s Search) Look(ctx context.Context, f Former) error {
	asks := newAsker(datadir.NewID())
	gossip, err := membership.Open(ctx, membership.Config{
		Cluster: f.Cluster, Endpoint: s.Endpoint, Keys: s.Keys, Streams: s.Streams, Join: s.Join, Dials: lookDials, Logger: s.Logger, OnMessage: asks.hear,
		Meta: membership.Meta{Node: asks.self, Incarnation: 1, Name: "recovery", Version: s.Version, Phase: autopilot.PhaseLeaving},
	})
	if err != nil {
		return fmt.Errorf("holdfast: looking for the former group: %w", err)
	}
	defer gossip.Close()
	defer asks.asking.Wait()
	asking, end := context.WithCancel(ctx)
	defer end()
	strange := make(map[string]error) // what has answered at some time of the look
	tried, patience, began := gossip.Tried(), (<-chan time.Time)(nil), time.Now()
	poll, ask, told := time.NewTicker(100*time.Millisecond), time.NewTicker(asksEach), time.NewTicker(lookTold)
	defer poll.Stop()
	defer ask.Stop()
	defer told.Stop()
	for {
		members := gossip.Members()
		seen, err := f.seen(members)
		if err != nil {
			return err
		}
		maps.Copy(strange, gossip.Strangers())
		for _, m := range members {
			if m.Here() {
				delete(strange, m.Addr) // it was about to start
			}
		}
		select {
		case <-poll.C:
		case <-ask.C:
			asks.ask(asking, gossip, f)
		case answer := <-asks.lives:
			if err := f.refuse(answer); err != nil {
				return err
			}
		case <-told.C:
			s.Logger.Info("the recovery still looks for the former group", "for", time.Since(began).Round(time.Second).String(),
				"seen", len(seen), "refused by", len(strange))
		case <-tried:
			tried, patience = nil, time.After(lookTime)
		case <-patience:
			return s.unseen(f, seen, strange, gossip.JoinError())
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// unseen refuses where something answers at addresses of Join that may be most of the former group, with those
// that were seen: with other secrets, or the name of another fleet, the look sees no group that lives, and a
// process that hangs may go on. Where no address answers there is nothing to tell from.
func (s Search) unseen(f Former, seen []string, strange map[string]error, failed error) error {
	if len(strange) > 0 && (len(seen) == 0 || 2*(len(seen)+len(strange)) > len(f.Voters)) {
		addr := slices.Sorted(maps.Keys(strange))[0]
		return fmt.Errorf("%w: %s: it has other secrets or certificates, is of another fleet, hangs, or is no node: correct Secrets, TLS and Join, "+
			"or stop it; or set Unseen if you know that no node of the group runs: %w", ErrStrange, addr, strange[addr])
	}
	if len(seen) == 0 {
		s.Logger.Warn("no address of Join answers: the recovery goes on, as nobody was seen", "join", s.Join, "error", failed)
	} else {
		s.Logger.Warn("the recovery goes on beside nodes of the former group: they are no majority of it", "seen", seen)
	}
	return nil
}

// has reports whether a member runs a replica, of the former group or of another one.
func (f Former) has(m membership.Member) bool {
	return !m.Local && m.Here() && m.Phase.Runs() && m.ClusterID != ""
}

// seen are the nodes of the former group among the members of gossip. It refuses a group of which as many as
// most voters are seen: a standby counts, too, as it may have become a voter since the directory was written. It
// also refuses beside another group of the fleet, which another recovery may have made.
func (f Former) seen(members []membership.Member) (seen []string, err error) {
	for _, m := range members {
		if !f.has(m) {
			continue
		}
		name := fmt.Sprintf("%s (%q at %s)", m.Node, m.Name, m.Addr)
		if m.ClusterID != f.ClusterID {
			return nil, fmt.Errorf("%w: %s runs, in group %s: two groups would grant the same locks; join that one, with an "+
				"empty directory, or stop it first; or set Unseen if it may go on", ErrBeside, name, m.ClusterID)
		}
		seen = append(seen, name)
	}
	if 2*len(seen) <= len(f.Voters) || len(seen) == 0 {
		return seen, nil
	}
	return nil, fmt.Errorf("%w: of a group with %d voters these nodes run: %s: do not recover it; if they cannot serve, stop them first",
		ErrAlive, len(f.Voters), strings.Join(seen, ", "))
}
