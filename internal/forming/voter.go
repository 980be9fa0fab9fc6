package forming

import "github.com/holdfast-go/holdfast/internal/lease"

// handle handles one message: a request or a release as a voter, a vote as a candidate.
func (f *Forming) handle(m Message, in Input, v view, o *Output) {
	if m.From == f.vote.Candidate {
		f.seen = in.Now
	}
	switch m.Kind {
	case VoteRequest:
		granted := f.grant(m, in, v, o)
		o.send(Message{Kind: VoteReply, From: f.cfg.Self, To: m.From, Ballot: m.Ballot, Granted: granted, Unix: in.Unix})
	case VoteReply:
		switch {
		case !m.Granted:
			if _, asked := f.asked[m.From]; asked && m.Ballot == f.ballot {
				f.refused(m.From, in.Now)
			}
		case m.Ballot != f.ballot || f.ballot == 0:
			o.send(Message{Kind: Release, From: f.cfg.Self, To: m.From, Ballot: m.Ballot})
		default:
			f.votes[m.From] = heard{at: in.Now, unix: min(max(m.Unix, 0), unixMax)}
		}
	case Release:
		// A late release of an earlier ballot does not end the vote for a later one.
		if m.From == f.vote.Candidate && m.Ballot >= f.vote.Ballot {
			f.setVote(Vote{}, in.Now, o)
		}
	}
}

// grant answers a request: the same request receives the same answer, and a later ballot of the
// same candidate replaces the earlier one. Other candidates are refused.
func (f *Forming) grant(m Message, in Input, v view, o *Output) bool {
	asked := Vote{Candidate: m.From, Ballot: m.Ballot}
	switch {
	case f.cfg.Bootstrap < 1, len(v.groups) > 0, f.ballot != 0, m.From > f.cfg.Self:
		return false
	case f.vote == asked:
	case f.vote == Vote{}, f.vote.Candidate == m.From && f.vote.Ballot < m.Ballot:
		f.setVote(asked, in.Now, o)
	default:
		return false
	}
	f.repeats = in.Now.Add(repeat)
	return true
}

// keepVote frees the vote of an absent candidate, and repeats it to a present one, which answers an
// unwanted vote with a release. With a group in sight no vote is repeated.
func (f *Forming) keepVote(in Input, v view, o *Output) {
	if (f.vote == Vote{}) {
		return
	}
	for _, p := range in.Peers {
		if p.ID == f.vote.Candidate {
			f.seen = in.Now
		}
	}
	if in.Now.Sub(f.seen) >= AbsentAfter {
		f.setVote(Vote{}, in.Now, o)
		return
	}
	if in.Now >= f.repeats && len(v.groups) == 0 {
		f.repeats = in.Now.Add(repeat)
		o.send(Message{Kind: VoteReply, From: f.cfg.Self, To: f.vote.Candidate, Ballot: f.vote.Ballot, Granted: true, Unix: in.Unix})
	}
}

func (f *Forming) setVote(v Vote, now lease.Instant, o *Output) {
	f.vote, f.seen = v, now
	o.Vote, o.Save = v, true
}
