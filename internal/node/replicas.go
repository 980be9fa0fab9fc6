package node

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/internal/autopilot"
	"github.com/holdfast-go/holdfast/internal/consensus"
	"github.com/holdfast-go/holdfast/internal/seam"
)

// replicas describes members of the group, in the order of their nodes. A raft leader that is ill
// itself calls no other so.
func (n *Node) replicas(group *consensus.Group, members map[uint64]string) []seam.Replica {
	heard, leads, sick := group.Heard(), group.IsRaftLeader(), n.isIll()
	judged := make(map[string]autopilot.Member)
	if list := n.pilot.members.Load(); leads && list != nil {
		for _, m := range *list {
			judged[m.Node] = m
		}
	}
	leader, _, _ := group.RaftLeader()
	sights := n.quorum.sights.Load()
	list := make([]seam.Replica, 0, len(members))
	for replica, node := range members {
		r := seam.Replica{Node: node, Heard: -1}
		if m, ok := n.gossip.Member(node); ok {
			r.Name, r.Addr = m.Name, m.Addr
		} else if p, ok := n.known.find(node); ok {
			r.Name, r.Addr = p.Name, p.Addr
		}
		if one, ok := heard[replica]; ok {
			r.Heard = time.Since(one.At)
		}
		switch m, known := judged[node]; {
		case node == n.ID():
			r.Heard = 0
		case known:
			r.Behind = m.Behind
			if !sick {
				r.Ill = n.ill(m)
			}
		case sights != nil:
			r.Ill = (*sights)[node]
		case !leads && node == leader && r.Heard > n.patience():
			r.Ill = notHeard(r.Heard)
		}
		if r.Ill != "" && sights == nil {
			if err := group.Unreached(replica); err != nil {
				r.Ill += ": " + oneLine(err)
			}
		}
		list = append(list, r)
	}
	slices.SortFunc(list, func(a, b seam.Replica) int { return cmp.Compare(a.Node, b.Node) })
	return list
}

// ill says what the raft leader knows against a replica, "" for nothing.
func (n *Node) ill(m autopilot.Member) string {
	switch {
	case m.Heard < n.patience():
		return ""
	case m.Stuck:
		return fmt.Sprintf("it is heard, and has acknowledged nothing for %v while others have", m.Heard.Round(time.Second))
	}
	return notHeard(m.Heard)
}

func notHeard(d time.Duration) string { return fmt.Sprintf("not heard for %v", d.Round(time.Second)) }

// warnOfIll logs once when a voter has been ill for a third of ReplaceAfter, and when it is well
// again. A raft leader that is ill itself hears too little to judge.
func (p *pilot) warnOfIll() {
	if p.n.isIll() {
		return
	}
	for _, m := range p.leader.Members() {
		if m.Role != autopilot.Voter || m.Node == p.n.ID() {
			continue
		}
		switch why := p.n.ill(m); {
		case why == "" && p.ill[m.Node]:
			delete(p.ill, m.Node)
			p.n.log.Info("a voter is well again", "voter", p.n.described(m.Node))
		case why != "" && !p.ill[m.Node] && m.Heard >= p.n.cfg.ReplaceAfter/3:
			p.ill[m.Node] = true
			p.n.log.Warn("a voter is ill: it is replaced after ReplaceAfter, if another node can vote",
				"voter", p.n.described(m.Node), "why", why, "after", p.n.cfg.ReplaceAfter.String())
		}
	}
}
