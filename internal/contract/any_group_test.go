package contract_test

import (
	"path/filepath"
	"reflect"
	"runtime"
	"sync/atomic"
	"testing"
	"unsafe"
)

const (
	anyGroup  = "TestTheCallsKeepTheirPromisesOnAnyGroup"
	onClient  = "TestTheCallsKeepTheirPromisesOnAClient"
	onMortal  = "TestTheCallsKeepTheirPromisesOnAClientWhoseReplicasDie"
	onStandby = "TestTheCallsKeepTheirPromisesOnAStandby"
)

// leftOut are the files and the tests that do not run on any group, by what they need.
func leftOut() map[string][]string {
	return map[string][]string{
		"several nodes": {
			"addresses_test.go", "client_faults_test.go", "client_fleet_test.go", "close_fleet_test.go", "cold_start_test.go", "drift_test.go", "form_test.go", "founding_test.go", "hooks_events_test.go", "join_test.go",
			"last_voter_test.go", "leader_death_test.go", "level_test.go", "leave_test.go", "lock_delay_test.go", "lost_answer_test.go",
			"max_ttl_test.go", "missing_test.go", "outage_release_test.go", "probe_fleet_test.go", "quorum_test.go", "quota_test.go", "record_test.go", "recoveries_dirs_test.go", "recoveries_test.go", "reasons_test.go", "remove_test.go", "replicas_test.go", "state_fleet_test.go", "together_test.go", "transfer_test.go", "wiped_test.go",
			"TestNodesBeyondTheBoundAreToldAndHarmNobody", "TestOneCampaignLeadsAndAnotherFollowsWhenItResignsClosesOrDies",
			"TestWhyBlockedTellsWhoHasALockForHowLongAndWhoComesBefore", "TestACycleOfWaitersIsSeenAndRefusedToTheYoungestIfItAsks",
			"TestACycleIsSeenThroughTheLeaseAroundOneThatIsOver", "TestInspectTellsTheLastGrantsThatAreOver",
			"TestAnElectionOutlivesTheDeathOfItsLeaderAndOfTheRaftLeader", "TestAPlannedHandOverTakesLessThanFiftyMilliseconds",
			"TestAFunctionOfTLSThatPanicsCostsItsConnectionAlone", "TestALockersLossIsToldToItsPolicyAndUnlockIsThenQuiet", "TestALossThatUnlockAloneHearsOfIsToldToThePolicy", "TestTryLockIsFalseWithoutAnAnswer",
			"TestARunnerThatLosesItsLeaseHasNotFinished", "TestTheLeaseOfARunIsOverWhenItsFunctionHasReturned",
			"TestEveryTickRunsOnceThoughClocksDifferAndTheRaftLeaderDies", "TestALeaseWithAShorterTTLEndsAndItsLockIsFreeByThat",
			"TestALeaseWithALongerTTLLivesForItThoughTheRaftLeaderDies", "TestAShorterTTLThatIsNotConfirmedEndsTheLeaseUnlessALaterRenewalIs",
			"TestAHolderIsAskedToLetGoWithAReasonThoughTheRaftLeaderDies", "TestALeaderCanTellARequestFromCandidates",
			"TestAKeyThatIsForgottenRunsAgainAndOneThatRunsIsNotForgotten", "TestLeasesAreThoseOfThisProcessByName",
			"TestSetsNeverWaitForEachOtherInACycle", "TestASetIsGrantedThoughTheRaftLeaderDies",
			"TestAnIsolatedHolderLosesItsLeaseBeforeAnotherIsGrantedTheLock",
			"TestTheLockOfADeadHolderIsGrantedInTimeAlsoWhenTheRaftLeaderDiesAtTheWorstMoment",
			"TestARestartedReplicaThatBecomesRaftLeaderExpiresNobodyEarly", "TestAKilledNodeFreesItsLocksWhenItStartsAgain",
			"TestWithoutAQuorumCallsAnswerInTimeLeasesEndAndServiceResumesByItself", "TestTokensRiseAfterAllDataIsLost",
			"TestWaitersOfAllNodesAreServedInTheOrderOfTheirArrival", "TestADeadWaiterBlocksNobody",
			"TestJeopardyIsToldAtHalfOfTheValidityAndWhenItIsSafeAgain", "TestJeopardyKnowsOfMaxHold", "TestALeaseEndsInTimeOnClocksThatDriftWithinTheBound",
			"TestTwoHalvesOfAFleetNeverFormTwoGroups", "TestAWatcherMissesNothingWhenTheRaftLeaderDies",
			"TestEverySlotRunsOnceThoughTheLeaderIsKilledOrStoppedInTheMiddle", "TestARestartedFleetRunsTheLatestMissedSlotAndNoneTwice",
			"TestAFailedRunIsRepeatedAndAStoppedOneIsLeftToTheNextLeader", "TestFinishHeedsItsContextWhileAnotherOneIsUnderWay", "TestAFurtherFinishSaysWhatBecameOfTheRun", "TestARecordOfLongAgoIsNoneAhead",
		},
		"a data directory":                    {"recover_test.go"},
		"a group that is not as it should be": {"lost_news_test.go"},
		"a machine that is suspended":         {"TestASuspendedMachineFindsItsLeaseOverAtTheFirstLook", "TestTheContextOfALeaseWhoseMaximumEndsWhileItsMachineSleepsEndsToo"},
		"a simulated service or wall clock": {
			"TestARunLongerThanItsPeriodIsToldAndNeverOverlaps", "TestStepsOfTheWallClockRunNoSlotTwice",
			"TestAJobWhoseSlotCannotBeRecordedSaysSo", "TestThePauseAfterAFailedRunEndsWithTheNextSlot", "TestAWaitForAKeyThatIsGivenUpNamesTheKey",
		},
		"Config.TokenFloor of a node":   {"TestATokenFloorThatPanicsIsAskedAgain"},
		"a Config of a node":            {"TestTheShortestReplaceAfterIsTakenAndNamed"},
		"what a node logs as it starts": {"TestALogHandlerThatPanicsCostsItsLineAlone"},
		"no node": {
			"TestABadConfigIsRefusedWithTheNameOfItsField", "TestAllMistakesOfAConfigAreToldAtOnce",
			"TestReplicasAndReplaceAfterBeyondTheirEdgesAreRefused", "TestAZeroLeaseIsReleased",
			"TestALimitErrorSaysWhatItsNodeDoesNotKnow", "TestSlotRoundsToTheNearestMultipleOfTheInterval",
			anyGroup, onClient, onMortal, onStandby,
		},
	}
}

// The API stands on package seam alone: what it promises on one node holds on any node and group
// that keep that contract, with questions and answers that travel. Every test of this package runs
// here, but for those of leftOut.
func TestTheCallsKeepTheirPromisesOnAnyGroup(t *testing.T) {
	t.Parallel()
	everyTest(t, nil)
}

// A client hangs on a replica by a connection, and has none of its own.
func TestTheCallsKeepTheirPromisesOnAClient(t *testing.T) {
	t.Parallel()
	everyTest(t, map[string][]string{
		"it stays on no replica without a group": {"TestAnObserverWithNothingToAskInAGapLearnsOfTheLeaderThereafter"},
	})
}

// The replica that a client hangs on is killed in the middle of each test, time and again: with the
// answer to a call on its way, or before the call is carried out.
func TestTheCallsKeepTheirPromisesOnAClientWhoseReplicasDie(t *testing.T) {
	t.Parallel()
	everyTest(t, notWhileReplicasDie())
}

// notWhileReplicasDie are the tests of what a client does not promise when its replica is killed, by
// what is promised in its place.
func notWhileReplicasDie() map[string][]string {
	return map[string][]string{
		"a watch is told to read anew: EventResync, and an observer has the latest leader alone": {
			"TestAWatchOfEverythingTellsNothingOfOnceKeys", "TestAWatchTellsOfANewLimit", "TestObserveTellsEveryLeaderEveryValueAndEveryVacancyInOrder",
			"TestAWatcherThatDoesNotKeepUpIsToldToReadAnewAndHoldsUpNobody", "TestWatchTellsWhoLeadsAnElectionAndWhenNobodyDoes",
			"TestWatchTellsEveryChangeOfItsPrefixInLogOrderWithHolderTokenAndReason",
		},
		"a gap is where the replica was killed":                            {"gap_test.go"},
		"a list ends with ErrNoQuorum: the next replica has no such state": {"TestLocksIsOnePictureHoweverLongItIsRead"},
		"ErrUnknownOutcome of an end that the group does not remember: of a token that no grant had, of a run, of one of many grants": {
			"TestForceReleaseFreesALockAndTellsItsHolder", "TestManyKeysAreForgottenALittleAtATime", "TestTenThousandWaitersDrainInOrder",
			"TestARunThatIsFinishedIsRememberedAndOneThatIsAbandonedLeavesTheKeyOpen",
		},
		"a call whose context is over names a lock though its node finds no replica to ask about the holder": {
			"TestASetThatIsGivenUpNamesTheLockThatIsHeld",
		},
		"a LimitError that says what its node does not know": {
			"TestANameInUseAsALockIsNoSemaphoreAndSaysSo", "TestFewerPermitsEndNoLeaseAndRefuseWhoWantsMore",
		},
		"it asks the group for less than two calls": {
			"TestALockerHasAPolicyForLoss", "TestAnElectionHasOneLeader", "TestBadArgumentsAreRefusedWithTheirName",
			"TestOptionsThatACallDoesNotHonourAreRefused",
		},
	}
}

// A standby has a replica that never votes: what it applies and all that it proposes comes and goes
// by another node.
func TestTheCallsKeepTheirPromisesOnAStandby(t *testing.T) {
	t.Parallel()
	everyTest(t, map[string][]string{
		"its group makes no gap when a test wants one": {"gap_test.go"},
		"so many calls take minutes under the race detector": {
			"TestTenThousandWaitersDrainInOrder", "TestListsHaveEveryOnceKeyAndEverySession", "TestThousandsOfManualLeasesLiveByTheirRenewals",
		},
	})
}

// everyTest runs the tests that neither leftOut nor but, a table like it, has.
func everyTest(t *testing.T, but map[string][]string) {
	left := make(map[string]bool) // and whether there is one of this name
	for _, table := range []map[string][]string{leftOut(), but} {
		for _, names := range table {
			for _, name := range names {
				left[name] = false
			}
		}
	}
	for _, test := range allTests {
		pc := reflect.ValueOf(test.F).Pointer()
		path, _ := runtime.FuncForPC(pc).FileLine(pc)
		runs := true
		for _, name := range []string{test.Name, filepath.Base(path)} {
			if _, ok := left[name]; ok {
				left[name], runs = true, false
			}
		}
		if !runs {
			continue
		}
		t.Run(test.Name, func(t *testing.T) {
			t.Cleanup(func() {
				of, ok := asked.LoadAndDelete(t.Name())
				if t.Skipped() {
					return
				}
				if !ok {
					t.Error("it asks for none of the nodes of elsewhere: name it in leftOut")
				} else if n := of.(*atomic.Int64).Load(); n == 0 && under(t) == onMortal {
					t.Error("no replica was killed")
				}
			})
			test.F(t)
		})
	}
	for name, there := range left {
		if !there {
			t.Errorf("leftOut names %s, and there is none", name)
		}
	}
}

// allTests are the tests of this package.
var allTests []testing.InternalTest

// know finds the tests, which package testing does not list.
func know(m *testing.M) {
	field := reflect.ValueOf(m).Elem().FieldByName("tests")
	allTests = *(*[]testing.InternalTest)(unsafe.Pointer(field.UnsafeAddr()))
}
