package contract_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/seam/seamtest"
	"github.com/holdfast-go/holdfast/internal/simenv"
)

// onMemory is a node whose calls talk to a group that is no replica: one state machine in memory.
func onMemory(t testing.TB, change ...func(*holdfast.Config)) *holdfast.Cluster {
	t.Helper()
	cfg := holdfast.Config{Name: "alone", MaxTTL: holdfast.TTLMax}
	for _, f := range change {
		f(&cfg)
	}
	own := clock.System()
	group := seamtest.New(own.Now, cfg.Name)
	ctx, cancel := context.WithCancel(context.Background())
	var runs sync.WaitGroup
	runs.Go(func() { group.Run(ctx) })
	c, err := holdfast.Open(simenv.With(t.Context(), simenv.Env{Clock: own, Group: group}), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Close()
		cancel()
		runs.Wait()
	})
	if err := c.Ready(within(t, 10*time.Second)); err != nil {
		t.Fatal(err)
	}
	return c
}

// The API stands on package seam alone: what it promises on one node holds on any group that keeps
// that contract, with questions and answers that travel.
func TestTheCallsKeepTheirPromisesOnAnyGroup(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]func(*testing.T){
		"ALockHasOneHolder":      TestALockHasOneHolderAndItsTokensRise,
		"TryAcquire":             TestTryAcquireOfAHeldLockTellsWhoHasIt,
		"Deadline":               TestADeadlineWhileTheLockIsHeldAnswersTheHolderAndLeavesNothingBehind,
		"ContextOfAcquire":       TestTheContextOfAcquireGovernsTheWaitingAlone,
		"Released":               TestAReleasedLeaseIsOverForEveryCall,
		"ReleaseInTheBackground": TestReleaseWithAnEndedContextFreesTheLockInTheBackground,
		"DoPanics":               TestDoReleasesAlsoWhenTheFunctionPanics,
		"Value":                  TestAValueOutlivesItsHolderAndOnlyTheHolderWritesIt,
		"ForceRelease":           TestForceReleaseFreesALockAndTellsItsHolder,
		"SharedAndPermits":       TestSharedHoldersAndPermitsKeepTheirLimits,
		"TenThousandWaiters":     TestTenThousandWaitersDrainInOrder,
		"LocksInOrder":           TestLocksListsByPrefixInOrder,
		"LocksOnePicture":        TestLocksIsOnePictureHoweverLongItIsRead,
		"KeyRunsOnce":            TestAKeyRunsOnceAndLaterCallsAreToldWhoRanIt,
		"KeyStaysOpen":           TestAnErrorOrAPanicLeavesTheKeyOpenForARunWithAHigherToken,
		"WhileAKeyRuns":          TestWhileAKeyRunsOthersAreToldOrWaitForItsEnd,
		"RunFinished":            TestARunThatIsFinishedIsRememberedAndOneThatIsAbandonedLeavesTheKeyOpen,
		"RunLost":                TestARunThatWasLostCannotBeFinished,
		"LeaseReadsValue":        TestALeaseReadsItsLocksValue,
		"Set":                    TestASetIsHadAsAWholeUnderOneTokenAndGivenBackAsAWhole,
		"WatchInOrder":           TestWatchTellsEveryChangeOfItsPrefixInLogOrderWithHolderTokenAndReason,
		"WatchLeader":            TestWatchTellsWhoLeadsAnElectionAndWhenNobodyDoes,
		"WatchFallsBehind":       TestAWatcherThatDoesNotKeepUpIsToldToReadAnewAndHoldsUpNobody,
		"WatchNoKeys":            TestAWatchOfEverythingTellsNothingOfOnceKeys,
		"WatchEnds":              TestAWatchEndsWithItsContextWithTheNodeAndAtItsBound,
		"Locker":                 TestALockerExcludesAndCountsUnderSyncLocker,
		"LockersLoss":            TestALockersLossIsToldToItsPolicyAndUnlockIsThenQuiet,
		"LimitMismatch":          TestANameInUseAsALockIsNoSemaphoreAndSaysSo,
		"NewHolderIsToldOfThem":  TestANewHolderIsToldOfThoseWhoAlreadyWait,
		"Spans":                  TestASpanIsToldOfEachPieceOfWorkAndFunctionsRunInIt,
		"LossOnce":               TestALossThatAFunctionReturnsIsToldOnce,
		"ObserverFallsBehind":    TestAnObserverThatDoesNotKeepUpIsToldTheLatestAllTheSame,
		"Campaign":               TestACampaignStandsAgainAfterALoss,
		"Lead":                   TestLeadRunsWhileItLeadsAndResignsByReturning,
		"LeadEnds":               TestLeadEndsWithItsContextAndWithTheNode,
		"Observe":                TestObserveTellsEveryLeaderEveryValueAndEveryVacancyInOrder,
	} {
		t.Run(name, test)
	}
}
