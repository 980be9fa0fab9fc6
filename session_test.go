package holdfast

import (
	"context"
	"errors"
	"testing"
)

func TestASessionTakesSoManyUnfinishedCallsAndNoMore(t *testing.T) {
	t.Parallel()
	s := &session{claims: make(map[uint64]*claim)}
	var last uint64
	for range openMax {
		n, _, err := s.begin(make(chan wakeup, 1), 1)
		if err != nil {
			t.Fatal(err)
		}
		last = n
	}
	var limit *LimitError
	if _, _, err := s.begin(nil, 1); !errors.As(err, &limit) || limit.Limit != openMax {
		t.Errorf("call %d: %v", last+1, err)
	}
	s.finish(last) // not the oldest
	if _, _, err := s.begin(nil, 1); err != nil {
		t.Error(err)
	}
}

func TestANodeKeepsSoManyCallsWaitingAndNoMore(t *testing.T) {
	t.Parallel()
	a := newAdmission(1)
	for range proposalsMin {
		if err := a.enter(context.Background(), nil); err != nil {
			t.Fatal(err)
		}
	}
	for range turnsMax {
		a.queue.PushBack(&turn{decided: make(chan bool, 1)})
	}
	var limit *LimitError
	if err := a.enter(context.Background(), nil); !errors.As(err, &limit) {
		t.Errorf("call %d: %v", turnsMax+1, err)
	}
}
