package autopilot

// Probes are the nodes whose answer at their addresses would make them heirs of voters: P13.
func (l *Leader) Probes() []string { return l.probes }

// inherit finds the heirs of voters that are not heard. A host that is wiped keeps its name and its
// address; a host that was given the address of another has another name. Gossip takes a dead
// process for alive for seconds: the process that answers at its address proves that it is not there
// any more, and a later process of its node is at another address, where gossip shows it.
func (l *Leader) inherit(in *Input, v *snapshot) {
	l.probes = nil
	for i := range in.Members {
		m := &in.Members[i]
		old := v.seen[m.Node]
		if m.Role != Voter || m.Node == in.Self || m.Heard < max(l.cfg.Patience, l.cfg.Moment) || old.Name == "" || old.Addr == "" {
			continue
		}
		for node := range l.fresh {
			heir := v.seen[node]
			if !heir.Here || !v.tookIn(heir) || heir.Name != old.Name || heir.Addr != old.Addr {
				continue
			}
			l.probes = append(l.probes, node)
			if heir.Answers {
				m.Heir = node
			}
		}
	}
}

// tookIn reports whether the group has given a node a replica, or has carried out its Hello as that of
// a client.
func (v *snapshot) tookIn(m Sighting) bool {
	_, greeted := v.hellos[m.Node]
	return v.Members.Has(m.Node) || m.Client && greeted
}
