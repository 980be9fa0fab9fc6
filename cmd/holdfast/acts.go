package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast"
)

// actFlags are those of what only an operator may do.
type actFlags struct {
	reason string
	token  uint64
	named  func() bool // the token was said, if it is 0, too
	force  bool
}

// deed is what a command is about to do.
type deed struct {
	question string // asked before; "": nothing is destroyed
	do       func(context.Context) error
	said     string // when it is done, to people
	done     any    // the same, to tools
}

// act is a command that changes something. The fleet is asked first what is meant, then the
// operator, who may take time, and then it is done.
func (a *app) act(use, short, long string, nargs int, register func(*pflag.FlagSet), plan func(context.Context, *holdfast.Cluster, []string) (*deed, error)) *cobra.Command {
	cmd := &cobra.Command{Use: use, GroupID: groupAct, Short: short, Long: long, Args: cobra.ExactArgs(nargs)}
	cmd.RunE = a.joined(func(ctx context.Context, c *holdfast.Cluster, args []string) error {
		bounded, cancel := context.WithTimeout(ctx, a.timeout)
		defer cancel()
		d, err := plan(bounded, c, args)
		if err != nil {
			return err
		}
		if d.question != "" {
			if err := a.sure(ctx, d.question); err != nil {
				return err
			}
		}
		bounded, cancel = context.WithTimeout(ctx, a.timeout)
		defer cancel()
		if err := d.do(bounded); err != nil {
			return err
		}
		if a.format != "table" {
			return a.printJSON(d.done)
		}
		a.say("%s", clean(d.said))
		return nil
	})
	if register != nil {
		register(cmd.Flags())
	}
	cmd.Flags().BoolVar(&a.yes, "yes", false, "do not ask")
	return cmd
}

// deeds as tools see them.
type (
	grantDeed struct {
		Done  string         `json:"done"`
		Name  string         `json:"name"`
		Token holdfast.Token `json:"token"`
	}
	nodeDeed struct {
		Done   string `json:"done"`
		NodeID string `json:"node_id"`
	}
	keyDeed struct {
		Done string `json:"done"`
		Key  string `json:"key"`
	}
	limitDeed struct {
		Done  string `json:"done"`
		Name  string `json:"name"`
		Limit int    `json:"limit"`
	}
)

func (f *actFlags) needReason(flags *pflag.FlagSet) {
	flags.StringVar(&f.reason, "reason", "", "why: the holders, every watch and the logs have it (required)")
}

func (f *actFlags) mayReason(flags *pflag.FlagSet) {
	flags.StringVar(&f.reason, "reason", "", "why: every watch and the logs have it")
}

func (f *actFlags) onGrant(flags *pflag.FlagSet) {
	f.needReason(flags)
	f.named = func() bool { return flags.Changed("token") }
	flags.Uint64Var(&f.token, "token", 0, "of the grant, where a lock has several (default: that of the only holder)")
}

func (f *actFlags) checkReason() error {
	if strings.TrimSpace(f.reason) == "" {
		return &exit{codeUsage, errors.New("a reason is missing"), "Say --reason TEXT: a holder that loses something by it wants to know why."}
	}
	return nil
}

func (a *app) releaseCommand() *cobra.Command {
	f := &actFlags{}
	return a.act("release NAME --force --reason TEXT", "End a grant without its holder's consent",
		`release ends the grant at once. The holder may not have heard of it when the next holder begins: only
the token keeps its late writes out. request-release asks the holder instead.`, 1,
		func(flags *pflag.FlagSet) {
			f.onGrant(flags)
			flags.BoolVar(&f.force, "force", false, "required: the holder is not asked")
		},
		func(ctx context.Context, c *holdfast.Cluster, args []string) (*deed, error) {
			if !f.force {
				return nil, &exit{codeUsage, errors.New("release takes a lock from its holder"), "Say --force, or ask the holder: holdfast request-release."}
			}
			name := args[0]
			h, err := f.grant(ctx, c, name)
			return &deed{
				question: fmt.Sprintf("%q is taken from %s (token %d), which may still write.", name, who(h), h.Token),
				do:       func(ctx context.Context) error { return c.ForceRelease(ctx, name, h.Token, f.reason) },
				said:     fmt.Sprintf("the grant of %q with token %d is over", name, h.Token),
				done:     grantDeed{"release", name, h.Token},
			}, err
		})
}

func (a *app) requestReleaseCommand() *cobra.Command {
	f := &actFlags{}
	return a.act("request-release NAME --reason TEXT", "Ask the holder of a lock to release it",
		"request-release closes the holder's Lease.Wanted, with the reason. It ends no grant.", 1, f.onGrant,
		func(ctx context.Context, c *holdfast.Cluster, args []string) (*deed, error) {
			name := args[0]
			h, err := f.grant(ctx, c, name)
			return &deed{
				do:   func(ctx context.Context) error { return c.RequestRelease(ctx, name, h.Token, f.reason) },
				said: fmt.Sprintf("%s is asked to release %q", who(h), name),
				done: grantDeed{"request-release", name, h.Token},
			}, err
		})
}

// grant is the grant that is meant: the one with the token, or the only one.
func (f *actFlags) grant(ctx context.Context, c *holdfast.Cluster, name string) (holdfast.Holder, error) {
	if err := f.checkReason(); err != nil {
		return holdfast.Holder{}, err
	}
	info, err := c.Inspect(ctx, name)
	if err != nil {
		return holdfast.Holder{}, err
	}
	holders := info.Holders
	if f.named() {
		holders = slices.DeleteFunc(slices.Clone(holders), func(h holdfast.Holder) bool { return uint64(h.Token) != f.token })
	}
	switch len(holders) {
	case 1:
		return holders[0], nil
	case 0:
		return holdfast.Holder{}, &exit{codeFailed, fmt.Errorf("nobody holds %q, or not with that token", name), "See `holdfast lock NAME`."}
	}
	return holdfast.Holder{}, &exit{codeUsage, fmt.Errorf("%q has %d holders", name, len(holders)), "Say which one: --token, as `holdfast lock NAME` has it."}
}

func who(h holdfast.Holder) string {
	if h.Label != "" {
		return h.Node + " (" + h.Label + ")"
	}
	return h.Node
}

// onNode is a command that does something to a node, after a question unless that is "".
func (a *app) onNode(name, short, long, question, said string, do func(c *holdfast.Cluster, ctx context.Context, id, reason string) error) *cobra.Command {
	f := &actFlags{}
	return a.act(name+" NODE --reason TEXT", short, long, 1, f.needReason,
		func(_ context.Context, c *holdfast.Cluster, args []string) (*deed, error) {
			of := strings.NewReplacer("NODE", args[0])
			return &deed{
				question: of.Replace(question),
				do:       func(ctx context.Context) error { return do(c, ctx, args[0], f.reason) },
				said:     of.Replace(said),
				done:     nodeDeed{name, args[0]},
			}, f.checkReason()
		})
}

func (a *app) revokeNodeCommand() *cobra.Command {
	return a.onNode("revoke-node", "End all grants of a node that is dead",
		`revoke-node states that the node NODE is dead; `+"`holdfast lock`"+` shows the ids of holders. If its process
lives after all, two holders rely on a lock, and only tokens keep the late writes out.`,
		"All locks of NODE are taken away: is its process dead?", "node NODE holds nothing any more", (*holdfast.Cluster).RevokeNode)
}

func (a *app) removeNodeCommand() *cobra.Command {
	return a.onNode("remove-node", "Take a dead node out of the group now",
		`remove-node states that the node NODE does not come back soon; `+"`holdfast members`"+` shows the ids. It ends none of the
node's leases (revoke-node does). The raft leader refuses while Raft hears the node, and for the last voter.`,
		"Node NODE is taken out of the group: is its process dead?", "node NODE is out of the group", (*holdfast.Cluster).RemoveNode)
}

func (a *app) transferLeaderCommand() *cobra.Command {
	return a.onNode("transfer-leader", "Make a voter raft leader",
		`transfer-leader makes the voter NODE raft leader, as before work on the machine of the present one. No lease is
touched, and the group takes no commands for some milliseconds.`,
		"", "node NODE is raft leader", (*holdfast.Cluster).TransferRaftLeader)
}

func (a *app) forgetOnceCommand() *cobra.Command {
	f := &actFlags{}
	return a.act("forget-once KEY", "Forget that a Once key is finished: the next call runs it again", "", 1, f.mayReason,
		func(_ context.Context, c *holdfast.Cluster, args []string) (*deed, error) {
			return &deed{
				question: fmt.Sprintf("The next call runs %q again.", args[0]),
				do: func(ctx context.Context) error {
					return keyError(args[0], c.ForgetOnce(holdfast.ContextWithReason(ctx, f.reason), args[0]))
				},
				said: fmt.Sprintf("the key %q is forgotten", args[0]),
				done: keyDeed{"forget-once", args[0]},
			}, nil
		})
}

func (a *app) resizeCommand() *cobra.Command {
	f := &actFlags{}
	return a.act("resize NAME PERMITS", "Give a semaphore another number of permits",
		"resize ends no lease. The number before is accepted as well from then on, so that callers can be changed without a pause.", 2, f.mayReason,
		func(_ context.Context, c *holdfast.Cluster, args []string) (*deed, error) {
			permits, err := strconv.Atoi(args[1])
			if err != nil {
				return nil, &exit{codeUsage, fmt.Errorf("%q is no number of permits", args[1]), "Say it as in: holdfast resize thumbnails 8"}
			}
			return &deed{
				do: func(ctx context.Context) error {
					return c.ResizeLimit(holdfast.ContextWithReason(ctx, f.reason), args[0], permits)
				},
				said: fmt.Sprintf("%q has %d permits", args[0], permits),
				done: limitDeed{"resize", args[0], permits},
			}, nil
		})
}
