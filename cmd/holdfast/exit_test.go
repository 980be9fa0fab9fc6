package main

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast"
)

// A script tries again after 75, and gives up after 1.
func TestALockThatWasNotGotForLateAnswersIsATemporaryFailure(t *testing.T) {
	t.Parallel()
	late := fmt.Errorf("%w; before: %w", context.DeadlineExceeded, holdfast.ErrExpired)
	if e := asExit(late); e.code != codeTemporary || !strings.Contains(e.advice, "--ttl") {
		t.Errorf("code %d, %q", e.code, e.advice)
	}
	if e := asExit(fmt.Errorf("%w: %w", holdfast.ErrLost, late)); strings.Contains(e.advice, "--ttl") {
		t.Errorf("of a loss: %q", e.advice)
	}
}
