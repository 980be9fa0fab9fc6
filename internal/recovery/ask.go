package recovery

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/forming"
	"github.com/holdfast-go/holdfast/internal/membership"
)

const (
	asksEach = time.Second
	asksMax  = 8 // nodes at a time: one answer is enough
)

// asker asks the nodes in sight whether a majority of the voters of now answers them. The source knows the
// voters of then, and the group may have fewer.
type asker struct {
	self   string
	lives  chan forming.Message // answers that say so
	asking sync.WaitGroup
}

func newAsker(self string) *asker {
	return &asker{self: self, lives: make(chan forming.Message, asksMax)}
}

// hear takes a message of another node.
func (a *asker) hear(from string, b []byte) {
	m, err := forming.Decode(b)
	if err != nil || m.From != from || m.Kind != forming.Answer || !m.Lives {
		return
	}
	select {
	case a.lives <- m:
	default:
	}
}

// ask asks the nodes of the former group, in the background.
func (a *asker) ask(ctx context.Context, gossip *membership.Gossip, f Former) {
	asked := 0
	for _, m := range gossip.Members() {
		if asked < asksMax && f.has(m) && m.ClusterID == f.ClusterID {
			asked++
			question := forming.Message{Kind: forming.Ask, From: a.self, To: m.Node}
			a.asking.Go(func() { _ = gossip.Send(ctx, m.Node, question.Encode()) }) // one that is lost is asked again
		}
	}
}

// refuse is the refusal after an answer, nil if that is of another group.
func (f Former) refuse(answer forming.Message) error {
	if answer.Cluster != f.ClusterID {
		return nil
	}
	return fmt.Errorf("%w: a majority of its voters answers node %s: do not recover it; the source had %d voters, and it has fewer by now",
		ErrAlive, answer.From, len(f.Voters))
}
