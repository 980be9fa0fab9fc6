package fence

import (
	"context"
	"fmt"
	"time"
)

// tokensPerSecond is the pace at which the tokens of a group stay behind the clock: its first is
// that of the second in which it began, and a group grants fewer than this in a second.
const tokensPerSecond = 1 << 20

// Plausible is g for tokens that a group can have granted by now; a higher one is ErrInvalidToken
// and leaves no mark. Otherwise whoever may send a token shuts out all others for ever with
// TokenMax, by mistake or by intent. A group's tokens begin at unix seconds << 20 of its start and
// rise by one with each grant, so they stay behind the clock.
//
// The clock is this process's; ahead is for how far the fleet's may be before it: an hour does no
// harm. A token up to there is still admitted from anybody, and shuts out others until the group's
// tokens are higher, as those of a group that begins later are. So it limits the harm;
// authentication before the guard prevents it.
//
// It is not for a group whose tokens are ahead of the clock: one that began while its clock was far
// ahead, or whose Config.TokenFloor named such a token.
func Plausible(g Guard, ahead time.Duration) Guard { return plausible{present(g), ahead} }

type plausible struct {
	guard Guard
	ahead time.Duration
}

func (p plausible) Check(ctx context.Context, resource string, t Token) error {
	if err := p.judge(resource, t); err != nil {
		return err
	}
	return p.guard.Check(ctx, resource, t)
}

func (p plausible) CheckOnce(ctx context.Context, resource string, t Token) error {
	if err := p.judge(resource, t); err != nil {
		return err
	}
	return p.guard.CheckOnce(ctx, resource, t)
}

func (p plausible) judge(resource string, t Token) error {
	if seconds := time.Now().Add(p.ahead).Unix(); seconds < 0 || t/tokensPerSecond > Token(seconds) {
		return fmt.Errorf("%w: %v for resource %.64q is ahead of the clock", ErrInvalidToken, t, resource)
	}
	return nil
}
