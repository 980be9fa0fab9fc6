package node

import (
	"context"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/simenv"
	"github.com/holdfast-go/holdfast/transport"
)

// slowNames knows no name, and takes a moment to say so.
type slowNames time.Duration

func (d slowNames) LookupHost(ctx context.Context, host string) ([]string, error) {
	time.Sleep(time.Duration(d))
	return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
}

func (d slowNames) LookupSRV(context.Context, string, string, string) (string, []*net.SRV, error) {
	return "", nil, net.ErrClosed
}

// A node that founds a group alone unless Join finds one looked at the end of its first round of
// joining a second later, by its next poll.
func TestANodeThatFoundsAloneBeginsAsSoonAsItsJoinHasFoundNobody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const lookup = 50 * time.Millisecond
		begun := time.Now()
		n := opened(t, &heard{}, Config{
			Bootstrap: 1, Join: []string{"late.example:7643"},
			Env: simenv.Env{Network: transport.NewMemory(1), Names: slowNames(lookup)},
		})
		ready(t, n)
		if took := time.Since(begun); took < lookup || took > 4*lookup {
			t.Errorf("ready after %v, where looking for others took %v", took, lookup)
		}
	})
}
