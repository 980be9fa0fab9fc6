//go:build unix

package processes_test

import (
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
)

func TestALockOfAKilledProcessIsGrantedAfterItsTTLAndNotBefore(t *testing.T) {
	t.Parallel()
	p := procs(t, 3)
	held := p[0].must(order{Op: "acquire", Name: "lock", TTL: 5 * time.Second})
	next := p[1].begin(order{Op: "acquire", Name: "lock", TTL: time.Minute, Timeout: time.Minute})
	// What the holder itself may rely on is the bound, however long ago its last renewal was.
	asked := time.Now()
	look := p[0].must(order{Op: "look", Name: "lock"})
	p[0].kill()
	a := <-next // or an error, after its minute: how late a grant may be is told by simulated fleets
	took := time.Since(asked)
	if a.Err != "" || a.Token <= held.Token {
		t.Fatalf("the next holder got %q, token %d after %d", a.Err, a.Token, held.Token)
	}
	if !look.Valid || look.Left <= 0 || took < look.Left*99/100 { // the clocks of two processes may drift
		t.Errorf("granted %v after the holder had %v left", took, look.Left)
	}
}

func TestAProcessThatStartsAgainFreesItsOldLocksAtOnce(t *testing.T) {
	t.Parallel()
	p := procs(t, 3)
	held := p[0].must(order{Op: "acquire", Name: "lock", TTL: time.Hour})
	next := p[1].begin(order{Op: "acquire", Name: "lock", TTL: time.Hour, Timeout: time.Minute})
	p[0].kill()
	p[0].start()
	select {
	case a := <-next:
		if a.Err != "" || a.Token <= held.Token {
			t.Errorf("the next holder got %q, token %d after %d", a.Err, a.Token, held.Token)
		}
	case <-time.After(20 * time.Second):
		t.Error("the lock stayed with the dead process although its successor runs")
	}
	if again := p[0].must(order{Op: "ready"}); again.Node != held.Node {
		t.Errorf("the process came back as %s, was %s", again.Node, held.Node)
	}
}

func TestGrantsOfTheLivingSurviveTheDeathOfAMajority(t *testing.T) {
	t.Parallel()
	p := procs(t, 3)
	held := p[0].must(order{Op: "acquire", Name: "kept", TTL: time.Minute})
	p[0].must(order{Op: "set", Name: "kept", Value: []byte("v1")})
	p[1].kill()
	p[2].kill()
	if a := p[0].ask(order{Op: "inspect", Name: "kept", Timeout: time.Second}); !a.NoQuorum {
		t.Errorf("without a quorum: %q", a.Err)
	}
	if a := p[0].ask(order{Op: "look", Name: "kept"}); !a.Valid {
		t.Error("the lease ended before the end of its validity")
	}
	p[1].start()
	p[2].start()
	p[1].ready()
	p[2].ready()
	a := p[2].must(order{Op: "inspect", Name: "kept"})
	if len(a.Info.Holders) != 1 || a.Info.Holders[0].Token != held.Token || string(a.Info.Value) != "v1" {
		t.Errorf("after the restart of two: %+v", a.Info)
	}
	p[1].must(order{Op: "verify", Name: "kept", Token: held.Token})
	p[0].must(order{Op: "set", Name: "kept", Value: []byte("v2")})
	p[0].must(order{Op: "release", Name: "kept"})
}

func TestTokensAndValuesSurviveTheDeathOfAll(t *testing.T) {
	t.Parallel()
	p := procs(t, 3)
	var last holdfast.Token
	for round := range 3 {
		for i := range p {
			a := p[i].must(order{Op: "acquire", Name: "risen", TTL: time.Minute})
			if a.Token <= last {
				t.Fatalf("round %d: token %d after %d", round, a.Token, last)
			}
			last = a.Token
			p[i].must(order{Op: "set", Name: "risen", Value: []byte{byte(round), byte(i)}})
			if i < 2 {
				p[i].must(order{Op: "release", Name: "risen"})
			}
		}
		for _, q := range p {
			q.kill()
		}
		for _, q := range p {
			q.start()
		}
		for _, q := range p {
			q.ready()
		}
		a := p[round].must(order{Op: "inspect", Name: "risen"})
		if string(a.Info.Value) != string([]byte{byte(round), 2}) || a.Info.LastToken > last {
			t.Fatalf("round %d: after the death of all: %+v", round, a.Info)
		}
	}
}

func TestAStoppedProcessSeesAtItsFirstLookThatItsLeaseIsOver(t *testing.T) {
	t.Parallel()
	const ttl = time.Second
	p := procs(t, 3)
	held := p[0].must(order{Op: "acquire", Name: "lock", TTL: ttl})
	next := p[1].begin(order{Op: "acquire", Name: "lock", TTL: time.Minute, Timeout: time.Minute})
	p[0].signal(syscall.SIGSTOP)
	a := <-next
	if a.Err != "" || a.Token <= held.Token {
		t.Fatalf("the next holder got %q, token %d after %d", a.Err, a.Token, held.Token)
	}
	p[0].signal(syscall.SIGCONT)
	look := p[0].ask(order{Op: "look", Name: "lock"})
	if look.Valid || !look.Lost || !look.Done {
		t.Errorf("the woken process sees valid=%v lost=%v done=%v", look.Valid, look.Lost, look.Done)
	}
	if s := p[0].ask(order{Op: "set", Name: "lock", Value: []byte("late")}); !s.Lost {
		t.Errorf("a late write answered %q", s.Err)
	}
	p[2].must(order{Op: "verify", Name: "lock", Token: a.Token})
}
