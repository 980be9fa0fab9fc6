package node

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/loop"
	"github.com/holdfast-go/holdfast/internal/retry"
)

const (
	floorPause  = time.Second // after the first call of Config.TokenFloor that fails
	floorRarest = time.Minute // the longest pause while the group serves
)

// floor calls Config.TokenFloor until it succeeds, with exponential backoff from floorPause to
// rarest. The answer is the highest token that a resource has seen.
func (n *Node) floor(ctx context.Context, rarest time.Duration) (uint64, error) {
	if n.cfg.TokenFloor == nil {
		return 0, nil
	}
	backoff := retry.Backoff{First: floorPause, Max: rarest}
	for attempt := 1; ; attempt++ {
		token, err := n.askFloor(ctx)
		if err == nil || ctx.Err() != nil {
			return token, err
		}
		n.log.Error("Config.TokenFloor failed: this node calls it again, and a new group waits for its answer", "error", err)
		if err := loop.Sleep(ctx, backoff.Pause(attempt, rand.Float64())); err != nil {
			return 0, err
		}
	}
}

// askFloor calls Config.TokenFloor once.
func (n *Node) askFloor(ctx context.Context) (uint64, error) {
	type answer struct {
		token fence.Token
		err   error
	}
	answers := make(chan answer, 1)
	go func() { // the hook may ignore ctx; Close does not wait for it
		defer func() {
			if r := recover(); r != nil {
				answers <- answer{err: fmt.Errorf("holdfast: Config.TokenFloor panicked: %v", r)}
			}
		}()
		token, err := n.cfg.TokenFloor(ctx)
		answers <- answer{token, err}
	}()
	select {
	case a := <-answers:
		if a.err == nil && a.token > fence.TokenMax {
			a.err = fmt.Errorf("holdfast: Config.TokenFloor answered %d, which is no token", a.token)
		}
		return uint64(a.token), a.err
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// raise calls Config.TokenFloor when this node is raft leader for the first time since its process
// began, and raises the tokens of the group above the answer, as the state of the group may come
// from a backup. Nothing waits for the answer. (internal/consensus raises tokens to the voters'
// clocks before the group serves.)
func (n *Node) raise(ctx context.Context) {
	if n.cfg.TokenFloor == nil || n.founder.initialized {
		return
	}
	for {
		group, changed := n.Proposer.Current()
		if group != nil && group.IsRaftLeader() {
			break
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
	floor, err := n.floor(ctx, floorRarest)
	if err != nil {
		return // the node ends
	}
	if _, err := n.insist(ctx, fsm.Raise{Counter: floor}); err != nil && ctx.Err() == nil {
		n.log.Error("raising the tokens of the group above Config.TokenFloor failed", "floor", floor, "error", err)
	}
}
