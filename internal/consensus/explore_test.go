package consensus

import (
	"context"
	"fmt"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lni/dragonboat/v4/raftpb"
	"github.com/lni/vfs"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/transport"
)

func TestExplore(t *testing.T) {
	if os.Getenv("EXPLORE") == "" {
		t.Skip()
	}
	types := []raftpb.MessageType{raftpb.ReplicateResp, raftpb.Heartbeat, raftpb.HeartbeatResp, raftpb.NoOP,
		raftpb.RequestVote, raftpb.RequestVoteResp, raftpb.RequestPreVote, raftpb.RequestPreVoteResp,
		raftpb.ReadIndex, raftpb.ReadIndexResp, raftpb.TimeoutNow, raftpb.RateLimit, raftpb.SnapshotReceived, raftpb.LeaderTransfer, raftpb.Replicate}
	only := os.Getenv("EXPLORE")
	for _, typ := range types {
		for _, term := range []string{"0", "same", "max"} {
			for _, member := range []bool{false, true} {
				name := fmt.Sprintf("%v/term=%s/member=%v", typ, term, member)
				if only != "all" && only != name {
					continue
				}
				t.Run(name, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						b := newBench()
						group := []*replica{b.open(t, 1, vfs.NewMem(), StartBootstrap)}
						group[0].propose(t, birth())
						for n := 2; n <= 3; n++ {
							j := b.add(t, group[0], n, vfs.NewMem())
							group[0].promote(t, j)
							group = append(group, j)
						}
						leader := leaderOf(t, group)
						_, now, _ := leader.RaftLeader()
						stranger, err := b.network.Listen(t.Context(), "10.0.0.66:1", transport.Options{})
						if err != nil {
							t.Fatal(err)
						}
						for _, r := range group {
							from := nodeID(9)
							if member {
								from = group[0].node
								if r == group[0] {
									from = group[1].node
								}
							}
							for _, num := range []uint64{0, 1, numberMax} {
								for _, reject := range []bool{false, true} {
									tm := uint64(0)
									switch term {
									case "same":
										tm = now
									case "max":
										tm = numberMax
									}
									batch := goodBatch(func(b *raftpb.MessageBatch) {
										b.SourceAddress = from
										b.Requests = []raftpb.Message{{Type: typ, From: ReplicaID(from), To: r.cfg.Replica, ShardID: shard, Term: tm, LogTerm: min(num, tm), LogIndex: num, Commit: num, Hint: num, HintHigh: num, Reject: reject}}
									})
									conn, err := stranger.Dial(t.Context(), r.endpoint.Addr(), transport.KindRaft)
									if err != nil {
										t.Fatal(err)
									}
									conn.Write(framed(t, frameBatch, &batch))
									synctest.Wait()
									conn.Close()
								}
							}
						}
						time.Sleep(3 * time.Second)
						for _, r := range group {
							if err := r.Failure(); err != nil {
								t.Errorf("failed: %v", err)
							}
						}
						ctx, c := context.WithTimeout(context.Background(), 20*time.Second)
						defer c()
						ok := false
						for ctx.Err() == nil && !ok {
							for _, r := range group {
								if _, err := r.Propose(ctx, fsm.Encode(fsm.Level{Level: 5})); err == nil {
									ok = true
									break
								}
							}
						}
						if !ok {
							t.Error("does not serve")
						}
						stranger.Close()
						for _, r := range group {
							r.Close()
							r.endpoint.Close()
						}
					})
				})
			}
		}
	}
}
