package certmagiclock_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/caddyserver/certmagic"
	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/contrib/certmagiclock"
	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/sim"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const domain = "example.org"

// lockName is CertMagic's name of the lock under which it orders.
const lockName = "issue_cert_" + domain

var (
	_ certmagic.Storage          = (*certmagiclock.Storage)(nil)
	_ certmagic.TryLocker        = (*certmagiclock.Storage)(nil)
	_ certmagic.LockLeaseRenewer = (*certmagiclock.Storage)(nil)
)

// authority is what all processes order from. It takes ten seconds.
type authority struct {
	key  *ecdsa.PrivateKey
	fail func(order int) error

	mu      sync.Mutex
	orders  []int // by node
	working int
	most    int // at one time
}

func newAuthority(t *testing.T) *authority {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return &authority{key: key, fail: func(int) error { return nil }}
}

func (a *authority) by() []int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.orders)
}

// issuer is the certmagic.Issuer of one node.
type issuer struct {
	*authority
	node int
}

func (issuer) IssuerKey() string { return "test" }

func (i issuer) Issue(ctx context.Context, request *x509.CertificateRequest) (*certmagic.IssuedCertificate, error) {
	i.mu.Lock()
	i.orders = append(i.orders, i.node)
	order := len(i.orders)
	i.working++
	i.most = max(i.most, i.working)
	i.mu.Unlock()
	time.Sleep(10 * time.Second) // virtual
	i.mu.Lock()
	i.working--
	i.mu.Unlock()
	if err := i.fail(order); err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(int64(order)), DNSNames: request.DNSNames,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(90 * 24 * time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, request.PublicKey, i.key)
	if err != nil {
		return nil, err
	}
	return &certmagic.IssuedCertificate{Certificate: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}, nil
}

// process is CertMagic on one node.
type process struct {
	*certmagic.Config
	storage *certmagiclock.Storage
	cache   *certmagic.Cache
}

func processes(t *testing.T, s *sim.Sim, a *authority, data certmagic.Storage) (all []process) {
	for i, n := range s.Nodes() {
		storage, err := certmagiclock.New(data, n.Cluster(), holdfast.WithLabel("certmagic"))
		if err != nil {
			t.Fatal(err)
		}
		var config *certmagic.Config
		cache := certmagic.NewCache(certmagic.CacheOptions{
			GetConfigForCert: func(certmagic.Certificate) (*certmagic.Config, error) { return config, nil },
			Logger:           zap.NewNop(),
		})
		config = certmagic.New(cache, certmagic.Config{Storage: storage, Issuers: []certmagic.Issuer{issuer{a, i}}, Logger: zap.NewNop()})
		all = append(all, process{config, storage, cache})
	}
	return all
}

// obtain lets every process want the certificate at one moment. The function that it returns waits
// for all.
func obtain(t *testing.T, all []process) (wait func()) {
	var wg sync.WaitGroup
	for i, p := range all {
		wg.Go(func() {
			if err := p.ObtainCertAsync(context.Background(), domain); err != nil {
				t.Errorf("node %d: %v", i, err)
			}
		})
	}
	return func() {
		wg.Wait()
		for i, p := range all {
			if _, err := p.CacheManagedCertificate(context.Background(), domain); err != nil {
				t.Errorf("node %d has no certificate: %v", i, err)
			}
			p.cache.Stop()
		}
	}
}

func TestOneProcessOrdersTheCertificateAndAllHaveIt(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	data := &certmagic.FileStorage{Path: t.TempDir()}
	sim.Run(t, sim.Options{Nodes: 3}, func(s *sim.Sim) {
		obtain(t, processes(t, s, a, data))()
		if info, err := s.Node(0).Cluster().Inspect(context.Background(), certmagiclock.Prefix+lockName); err != nil || len(info.Holders) != 0 || len(info.Past) != 3 {
			t.Errorf("the lock afterwards: %+v, %v", info, err)
		}
	})
	if got := a.by(); len(got) != 1 {
		t.Errorf("nodes %v have ordered", got)
	}
}

// CertMagic keeps the lock while it waits for its next attempt, a minute after the first. A lease
// lives for 15 s.
func TestTheLockIsKeptFromAttemptToAttempt(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	a.fail = func(order int) error {
		if order < 3 {
			return errors.New("not now")
		}
		return nil
	}
	data := &certmagic.FileStorage{Path: t.TempDir()}
	sim.Run(t, sim.Options{Nodes: 3}, func(s *sim.Sim) { obtain(t, processes(t, s, a, data))() })
	if got := a.by(); len(got) != 3 || slices.Min(got) != slices.Max(got) || a.most != 1 {
		t.Errorf("nodes %v have ordered, %d at a time", got, a.most)
	}
}

func TestAProcessThatLostTheLockDoesNotOrderAgain(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	a.fail = func(order int) error {
		if order == 1 {
			return errors.New("not now")
		}
		return nil
	}
	data := &certmagic.FileStorage{Path: t.TempDir()}
	sim.Run(t, sim.Options{Nodes: 3}, func(s *sim.Sim) {
		all := processes(t, s, a, data)
		wait := obtain(t, all)
		time.Sleep(20 * time.Second) // the first attempt has failed, and its process waits for the next
		first := a.by()[0]
		s.Node(first).Isolate()
		time.Sleep(5 * time.Minute)
		if got := a.by(); len(got) != 2 || got[1] == first {
			t.Errorf("nodes %v have ordered while node %d was cut off", got, first)
		}
		s.Heal()
		wait()
	})
	if got := a.by(); len(got) != 2 || a.most != 1 {
		t.Errorf("nodes %v have ordered, %d at a time", got, a.most)
	}
}

// takeAway ends the lease of the lock "a", as an operator does.
func takeAway(t *testing.T, c *holdfast.Cluster) {
	t.Helper()
	info, err := c.Inspect(context.Background(), certmagiclock.Prefix+"a")
	if err != nil || len(info.Holders) != 1 {
		t.Fatalf("%+v, %v", info, err)
	}
	if err := c.ForceRelease(context.Background(), info.Name, info.Holders[0].Token, "a test"); err != nil {
		t.Fatal(err)
	}
}

func TestALostLockIsTakenAgainUnlessAnotherHasIt(t *testing.T) {
	t.Parallel()
	data := &certmagic.FileStorage{Path: t.TempDir()}
	sim.Run(t, sim.Options{Nodes: 3}, func(s *sim.Sim) {
		ctx := context.Background()
		stores := make([]*certmagiclock.Storage, 2)
		for i := range stores {
			var err error
			if stores[i], err = certmagiclock.New(data, s.Node(i).Cluster()); err != nil {
				t.Fatal(err)
			}
		}
		force := func() { takeAway(t, s.Node(2).Cluster()) }
		no := func(err error) {
			t.Helper()
			if err != nil {
				t.Error(err)
			}
		}
		no(stores[0].Lock(ctx, "a"))
		no(stores[0].RenewLockLease(ctx, "a", time.Hour))
		if ok, err := stores[1].TryLock(ctx, "a"); ok || err != nil {
			t.Errorf("a lock that is held: %v, %v", ok, err)
		}
		force()
		time.Sleep(time.Second)
		no(stores[0].RenewLockLease(ctx, "a", time.Hour))
		if ok, err := stores[1].TryLock(ctx, "a"); ok || err != nil {
			t.Errorf("a lock that was taken again: %v, %v", ok, err)
		}
		force()
		time.Sleep(time.Second)
		no(stores[1].Lock(ctx, "a"))
		if err := stores[0].RenewLockLease(ctx, "a", time.Hour); !errors.Is(err, holdfast.ErrHeld) {
			t.Errorf("a lock that another has: %v", err)
		}
		no(stores[0].Unlock(ctx, "a")) // of a lost lock: it does no harm to the one who has it
		if ok, err := stores[0].TryLock(ctx, "a"); ok || err != nil {
			t.Errorf("a lock that another has was free: %v, %v", ok, err)
		}
		cancelled, cancel := context.WithCancel(ctx)
		cancel()
		no(stores[1].Unlock(cancelled, "a"))
		for _, err := range []error{stores[1].Unlock(ctx, "a"), stores[1].RenewLockLease(ctx, "a", time.Hour), stores[1].Unlock(ctx, "b")} {
			if !errors.Is(err, certmagiclock.ErrNotLocked) {
				t.Errorf("what is not locked: %v", err)
			}
		}
	})
}

// CertMagic's Unlock has a name alone: of two callers of one process, one of which has lost the
// lock, the first to unlock may be the wrong one.
func TestUnlockOfALostLockKeepsThatOfAnotherCallerOfTheProcess(t *testing.T) {
	t.Parallel()
	sim.Run(t, sim.Options{Nodes: 3}, func(s *sim.Sim) {
		ctx := context.Background()
		c := s.Node(0).Cluster()
		store, err := certmagiclock.New(&certmagic.FileStorage{Path: t.TempDir()}, c)
		if err != nil {
			t.Fatal(err)
		}
		holders := func() int {
			info, err := s.Node(1).Cluster().Inspect(ctx, certmagiclock.Prefix+"a")
			if err != nil {
				t.Error(err)
			}
			return len(info.Holders)
		}
		if err := store.Lock(ctx, "a"); err != nil {
			t.Fatal(err)
		}
		takeAway(t, c)
		if err := errors.Join(store.Lock(ctx, "a"), store.Unlock(ctx, "a")); err != nil || holders() != 1 {
			t.Errorf("after the first Unlock: %v, %d holders", err, holders())
		}
		if err := store.Unlock(ctx, "a"); err != nil || holders() != 0 {
			t.Errorf("after the second Unlock: %v, %d holders", err, holders())
		}
	})
}

func TestWithoutAMajorityNothingWaitsForEver(t *testing.T) {
	t.Parallel()
	sim.Run(t, sim.Options{Nodes: 3}, func(s *sim.Sim) {
		ctx := context.Background()
		store, err := certmagiclock.New(&certmagic.FileStorage{Path: t.TempDir()}, s.Node(0).Cluster())
		if err != nil {
			t.Fatal(err)
		}
		if err := store.Lock(ctx, "a"); err != nil {
			t.Fatal(err)
		}
		s.Node(0).Isolate()
		for what, call := range map[string]func() error{
			"TryLock":        func() error { _, err := store.TryLock(ctx, "b"); return err },
			"RenewLockLease": func() error { return store.RenewLockLease(ctx, "a", time.Hour) },
		} {
			began := time.Now()
			if err := call(); err == nil || time.Since(began) > 11*time.Second {
				t.Errorf("%s returned %v after %v", what, err, time.Since(began))
			}
		}
		began := time.Now()
		if err := store.Unlock(ctx, "a"); time.Since(began) > 6*time.Second {
			t.Errorf("Unlock returned %v after %v", err, time.Since(began))
		}
		s.Heal()
		if err := store.Lock(ctx, "a"); err != nil { // freed in the background
			t.Error(err)
		}
		if err := store.Unlock(ctx, "a"); err != nil {
			t.Error(err)
		}
	})
}

func TestWhatIsWrongIsSaidAtOnce(t *testing.T) {
	t.Parallel()
	c := holdfasttest.Fleet(t, 1)[0]
	if _, err := certmagiclock.New(nil, c); !errors.Is(err, holdfast.ErrInvalid) {
		t.Errorf("no data: %v", err)
	}
	if _, err := certmagiclock.New(&certmagic.FileStorage{}, nil); !errors.Is(err, holdfast.ErrInvalid) {
		t.Errorf("no cluster: %v", err)
	}
	for _, option := range []holdfast.Option{holdfast.WithManualRenew(), holdfast.WithPriority(1)} {
		if _, err := certmagiclock.New(&certmagic.FileStorage{}, c, option); !errors.Is(err, holdfast.ErrInvalid) {
			t.Errorf("a wrong option: %v", err)
		}
	}
}
