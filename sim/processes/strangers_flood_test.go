//go:build unix

package processes_test

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit"
)

func TestStrangersDoNotMakeAProcessGrow(t *testing.T) {
	t.Parallel()
	p := procs(t, 1)[0]
	if memoryMax(p) == 0 {
		t.Skip("this system does not tell what a process has used")
	}
	addr := p.must(order{Op: "ready"}).Addr
	p.must(order{Op: "acquire", Name: "held", TTL: 10 * time.Second})
	before := memoryMax(p)
	var attackers sync.WaitGroup
	block := bytes.Repeat([]byte{0x0a}, 1<<20)
	for i := range 200 {
		s := newStranger(t, addr)
		// States of a million members, each of which would cost more than a hundred bytes.
		attackers.Go(func() { s.say([]byte("HF\x01\x02\xf4\x08holdfast\x06\x81\xa5Nodes\xce\x00\x0f\x42\x40")) })
		if i%10 != 0 {
			continue
		}
		attackers.Go(func() { // frames of 80 MiB, as much of them as the node takes
			c := s.dial()
			if c == nil {
				return
			}
			defer c.Close()
			c.SetDeadline(time.Now().Add(5 * time.Second))
			_, err := c.Write(append([]byte(raftPreface), frame('B', nil, 80<<20)...))
			for n := 0; n < 40 && err == nil; n++ {
				_, err = c.Write(block)
			}
		})
	}
	attackers.Wait()
	newStranger(t, addr).packets(rand.New(rand.NewPCG(1, 1)))
	if grown := memoryMax(p) - before; grown > 400<<20 {
		t.Errorf("the process grew by %d MiB at the most", grown>>20)
	} else {
		t.Logf("the process grew by %d MiB at the most", grown>>20)
	}
	if a := p.ask(order{Op: "look", Name: "held"}); !a.Valid {
		t.Errorf("the lease was lost: %s", a.Err)
	}
	p.must(order{Op: "release", Name: "held"})
}

// memoryMax is the most that the process had in memory, in bytes; 0 if the system does not tell.
func memoryMax(p *proc) int {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.PID()))
	if err != nil {
		return 0
	}
	match := regexp.MustCompile(`VmHWM:\s+(\d+) kB`).FindSubmatch(status)
	if match == nil {
		return 0
	}
	n, _ := strconv.Atoi(string(match[1]))
	return n << 10
}

// BenchmarkPairAmongStrangers shows what the honest notice of strangers: pairs at rest and under
// attack, in turns on the same fleet, since other things on the machine change as well. The
// strangers take their time, for they share the machine: a thousand datagrams, eighty connections
// that say nothing and twenty attempts at TLS a second, on each node.
func BenchmarkPairAmongStrangers(b *testing.B) {
	for _, secrets := range [][]string{nil, {"a secret of this fleet"}} {
		b.Run(fmt.Sprintf("secrets=%v", secrets != nil), func(b *testing.B) {
			nodes := testkit.Fleet(b, 3, func(_ int, cfg *holdfast.Config) { cfg.Secrets = secrets })
			stop := make(chan struct{})
			var attack atomic.Bool
			var attackers sync.WaitGroup
			for _, c := range nodes {
				attackers.Go(func() { floodNode(b, c.Addr(), &attack, stop) })
			}
			defer attackers.Wait()
			defer close(stop)
			var took [2][]time.Duration
			const turn = 250 * time.Millisecond
			turned, now := time.Now(), 0
			for n := 0; b.Loop(); n++ {
				began := time.Now()
				if began.Sub(turned) > turn {
					turned, now = began, 1-now
					attack.Store(now == 1)
				}
				if err := testkit.Pair(nodes[n%len(nodes)], "lock"); err != nil {
					b.Fatal(err)
				}
				took[now] = append(took[now], time.Since(began))
			}
			for i, name := range []string{"rest", "attack"} {
				if len(took[i]) > 0 {
					slices.Sort(took[i])
					b.ReportMetric(float64(took[i][len(took[i])/2].Microseconds()), name+"-p50-µs")
					b.ReportMetric(float64(took[i][len(took[i])*99/100].Microseconds()), name+"-p99-µs")
				}
			}
		})
	}
}

// floodNode sends a node what strangers send while attack is true, until stop closes.
func floodNode(b *testing.B, addr string, attack *atomic.Bool, stop <-chan struct{}) {
	s, r := newStranger(b, addr), rand.New(rand.NewPCG(1, 1))
	udp, err := net.Dial("udp", addr)
	if err != nil {
		b.Error(err)
		return
	}
	defer udp.Close()
	var open []net.Conn
	defer func() {
		for _, c := range open {
			c.Close()
		}
	}()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for n := 0; ; n++ {
		select {
		case <-stop:
			return
		case <-tick.C:
		}
		if !attack.Load() {
			continue
		}
		for range 10 {
			udp.Write(append([]byte("\xf4\x08holdfast"), noise(r, 1+r.IntN(1400))...))
		}
		c := s.dial()
		if c == nil {
			return
		}
		switch n % 5 {
		case 0:
			c.SetDeadline(time.Now().Add(time.Second))
			tls.Client(c, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"holdfast/1"}}).Handshake()
			c.Close()
		case 1:
			io.WriteString(c, "HF\x01\x02\xf4\x08holdfast\x06\x81\xa5Nodes\xce\x00\x0f\x42\x40")
			fallthrough
		default:
			open = append(open, c)
		}
	}
}
