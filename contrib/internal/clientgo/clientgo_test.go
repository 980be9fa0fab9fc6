package clientgo_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"go.uber.org/goleak"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/sim"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The timing of client-go that Kubernetes' own components have.
const (
	leaseDuration = 15 * time.Second
	renewDeadline = 10 * time.Second
	retryPeriod   = 2 * time.Second
)

// plug is a resourcelock.Interface whose record is the value of a lock, and whose holder is that of
// the lock.
type plug struct {
	c        *holdfast.Cluster
	identity string
	options  []holdfast.Option
	lease    *holdfast.Lease // client-go calls one after the other
}

func (p *plug) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	info, err := p.c.Inspect(ctx, "leader")
	if err != nil {
		return nil, nil, err
	}
	if len(info.Holders) == 0 {
		return nil, nil, apierrors.NewNotFound(schema.GroupResource{Resource: "locks"}, "leader")
	}
	record := new(resourcelock.LeaderElectionRecord)
	return record, info.Value, json.Unmarshal(info.Value, record)
}

func (p *plug) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	value, err := json.Marshal(record)
	if err != nil {
		return err
	}
	p.lease, err = p.c.TryAcquire(ctx, "leader", append(p.options, holdfast.WithValue(value))...)
	return err
}

func (p *plug) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	if p.lease == nil {
		return errors.New("another leads")
	}
	value, err := json.Marshal(record)
	if err != nil {
		return err
	}
	return p.lease.Set(ctx, value) // refused by the group if the lease is over
}

func (p *plug) RecordEvent(string) {}
func (p *plug) Identity() string   { return p.identity }
func (p *plug) Describe() string   { return "leader" }

// tenure is a time in which a node's work was allowed to run.
type tenure struct {
	node       int
	begin, end time.Time
}

// tenures lets client-go elect a leader among three nodes, cuts the leader off from the others, and
// returns who has led.
func tenures(t *testing.T, options ...holdfast.Option) (list []tenure) {
	config := func(_ int, cfg *holdfast.Config) { cfg.TTL = 5 * time.Second }
	sim.Run(t, sim.Options{Nodes: 3, Config: config}, func(s *sim.Sim) {
		ctx, end := context.WithCancel(klog.NewContext(context.Background(), logr.Discard()))
		var mu sync.Mutex
		var wg sync.WaitGroup
		for i, n := range s.Nodes() {
			work := func(ctx context.Context) {
				begin := time.Now()
				<-ctx.Done()
				mu.Lock()
				defer mu.Unlock()
				list = append(list, tenure{i, begin, time.Now()})
			}
			elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
				Lock:          &plug{c: n.Cluster(), identity: fmt.Sprint(i), options: options},
				LeaseDuration: leaseDuration, RenewDeadline: renewDeadline, RetryPeriod: retryPeriod,
				Callbacks: leaderelection.LeaderCallbacks{OnStartedLeading: work, OnStoppedLeading: func() {}},
			})
			if err != nil {
				t.Fatal(err)
			}
			wg.Go(func() { elector.Run(ctx) })
		}
		time.Sleep(30 * time.Second)
		info, err := s.Node(0).Cluster().Inspect(ctx, "leader")
		if err != nil || len(info.Holders) != 1 {
			t.Fatalf("%+v, %v", info, err)
		}
		for _, n := range s.Nodes() {
			if n.Cluster().ID() == info.Holders[0].NodeID {
				n.Isolate()
			}
		}
		time.Sleep(time.Minute)
		end()
		wg.Wait()
	})
	return list
}

// together is the longest time for which two nodes have led at once.
func together(list []tenure) (most time.Duration) {
	for i, a := range list {
		for _, b := range list[:i] {
			begin, end := a.begin, a.end
			if b.begin.After(begin) {
				begin = b.begin
			}
			if b.end.Before(end) {
				end = b.end
			}
			most = max(most, end.Sub(begin))
		}
	}
	return most
}

// client-go's leader goes on until RenewDeadline has passed since it could last write its record.
// It does not know that the lock was lost before.
func TestTwoLeadWhereALostLockIsGrantedAtOnce(t *testing.T) {
	t.Parallel()
	list := tenures(t)
	if len(list) != 2 || together(list) == 0 {
		t.Errorf("expected two leaders at once, for this is what the delay is for: %v", list)
	}
	t.Logf("two led for %v", together(list))
}

func TestOneLeadsUnderALockDelayOfTheLeaseDuration(t *testing.T) {
	t.Parallel()
	list := tenures(t, holdfast.WithLockDelay(leaseDuration))
	if len(list) != 2 || together(list) > 0 {
		t.Errorf("two led for %v: %v", together(list), list)
	}
}
