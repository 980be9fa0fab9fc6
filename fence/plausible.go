package fence

import (
	"context"
	"fmt"
	"time"
)

// tokensPerSecond keeps the tokens of a group behind the clock: the first is that of the second in
// which the group began, and a group grants fewer than this in a second.
const tokensPerSecond = 1 << 20

// Plausible is g for tokens that a group can have granted by now; a higher one is ErrInvalidToken
// and leaves no mark. Otherwise a client that may send a token could shut out all others forever
// with TokenMax, by mistake or by intent. A group's tokens begin at unix seconds << 20 of its start
// and rise by one with each grant, so they stay behind the clock.
//
// The clock is this process's; ahead is the allowed lead of the fleet's clock, and an hour does no
// harm. A false token up to there is still admitted, and shuts out others until the group's tokens
// are higher, as those of a later group are. Plausible limits the harm; authentication before the
// guard prevents it.
//
// It is not for a group whose tokens are ahead of the clock: one that began while its clock was far
// ahead, or whose Config.TokenFloor named such a token.
func Plausible(g Guard, ahead time.Duration) Guard {
	return guardFunc(func(ctx context.Context, resource string, t Token, once bool) error {
		if seconds := time.Now().Add(ahead).Unix(); seconds < 0 || t/tokensPerSecond > Token(seconds) {
			return fmt.Errorf("%w: %v for resource %.64q is ahead of the clock", ErrInvalidToken, t, resource)
		}
		return ask(ctx, g, resource, t, once)
	})
}
