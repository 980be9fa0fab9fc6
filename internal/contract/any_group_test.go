package contract_test

import (
	"errors"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/client/clienttest"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/seam"
	"github.com/holdfast-go/holdfast/internal/seam/seamtest"
	"github.com/holdfast-go/holdfast/internal/simenv"
	"github.com/holdfast-go/holdfast/transport"
)

const (
	anyGroup = "TestTheCallsKeepTheirPromisesOnAnyGroup"
	onClient = "TestTheCallsKeepTheirPromisesOnAClient"
)

// leftOut are the files and the tests that do not run on any group, by what they need.
func leftOut() map[string][]string {
	return map[string][]string{
		"several nodes": {
			"addresses_test.go", "client_faults_test.go", "client_fleet_test.go", "close_fleet_test.go", "form_test.go", "founding_test.go", "hooks_events_test.go", "join_test.go",
			"last_voter_test.go", "leader_death_test.go", "level_test.go", "leave_test.go", "lock_delay_test.go", "lost_answer_test.go",
			"max_ttl_test.go", "missing_test.go", "probe_fleet_test.go", "quorum_test.go", "recoveries_dirs_test.go", "recoveries_test.go", "reasons_test.go", "remove_test.go", "replicas_test.go", "state_fleet_test.go", "together_test.go", "transfer_test.go", "wiped_test.go",
			"TestNodesBeyondTheBoundAreToldAndHarmNobody", "TestOneCampaignLeadsAndAnotherFollowsWhenItResignsClosesOrDies",
			"TestWhyBlockedTellsWhoHasALockForHowLongAndWhoComesBefore", "TestACycleOfWaitersIsSeenAndRefusedToTheYoungestIfItAsks",
			"TestACycleIsSeenThroughTheLeaseAroundOneThatIsOver", "TestInspectTellsTheLastGrantsThatAreOver",
			"TestAnElectionOutlivesTheDeathOfItsLeaderAndOfTheRaftLeader", "TestAPlannedHandOverTakesLessThanFiftyMilliseconds",
			"TestAFunctionOfTLSThatPanicsCostsItsConnectionAlone", "TestALockersLossIsToldToItsPolicyAndUnlockIsThenQuiet",
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
			"TestJeopardyIsToldAtHalfOfTheValidityAndWhenItIsSafeAgain", "TestALeaseEndsInTimeOnClocksThatDriftWithinTheBound",
			"TestTwoHalvesOfAFleetNeverFormTwoGroups", "TestAWatcherMissesNothingWhenTheRaftLeaderDies",
			"TestEverySlotRunsOnceThoughTheLeaderIsKilledOrStoppedInTheMiddle", "TestARestartedFleetRunsTheLatestMissedSlotAndNoneTwice",
			"TestAFailedRunIsRepeatedAndAStoppedOneIsLeftToTheNextLeader",
		},
		"a data directory":                  {"recover_test.go"},
		"a machine that is suspended":       {"TestASuspendedMachineFindsItsLeaseOverAtTheFirstLook"},
		"a simulated service or wall clock": {"TestARunLongerThanItsPeriodIsToldAndNeverOverlaps", "TestStepsOfTheWallClockRunNoSlotTwice"},
		"Config.TokenFloor of a node":       {"TestATokenFloorThatPanicsIsAskedAgain"},
		"what a node logs as it starts":     {"TestALogHandlerThatPanicsCostsItsLineAlone"},
		"no node": {
			"TestABadConfigIsRefusedWithTheNameOfItsField", "TestAllMistakesOfAConfigAreToldAtOnce",
			"TestALimitErrorSaysWhatItsNodeDoesNotKnow", "TestSlotRoundsToTheNearestMultipleOfTheInterval",
			anyGroup, onClient,
		},
	}
}

// The API stands on package seam alone: what it promises on one node holds on any node and group
// that keep that contract, with questions and answers that travel. Every test of this package runs
// here, but for those of leftOut.
func TestTheCallsKeepTheirPromisesOnAnyGroup(t *testing.T) {
	t.Parallel()
	everyTest(t)
}

// A client hangs on a replica by a connection, and has none of its own. It stays on none that has
// nothing to answer with.
func TestTheCallsKeepTheirPromisesOnAClient(t *testing.T) {
	t.Parallel()
	everyTest(t, "TestAnObserverWithNothingToAskInAGapLearnsOfTheLeaderThereafter")
}

// everyTest runs the tests that are not left out.
func everyTest(t *testing.T, but ...string) {
	left := make(map[string]bool) // and whether there is one of this name
	for _, name := range but {
		left[name] = false
	}
	for _, names := range leftOut() {
		for _, name := range names {
			left[name] = false
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
				if _, ok := asked.LoadAndDelete(t.Name()); !ok && !t.Skipped() {
					t.Error("it asks neither single nor virtual for its node: name it in leftOut")
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

var asked sync.Map // names of tests that had a node on memory

func onAnyGroup(t testing.TB) bool {
	return strings.HasPrefix(t.Name(), anyGroup+"/") || strings.HasPrefix(t.Name(), onClient+"/")
}

// onMemory is a node that is no member of any fleet, on a group that is no replica.
func onMemory(t testing.TB, l fsm.Limits, change ...func(*holdfast.Config)) *holdfast.Cluster {
	t.Helper()
	c, _ := onGroup(t, l, change...)
	return c
}

// onGroup is onMemory with its group.
func onGroup(t testing.TB, l fsm.Limits, change ...func(*holdfast.Config)) (*holdfast.Cluster, *seamtest.Group) {
	t.Helper()
	asked.Store(strings.Join(strings.SplitN(t.Name(), "/", 3)[:2], "/"), true)
	cfg := holdfast.Config{Name: "alone", Logger: quiet(), MaxTTL: holdfast.TTLMax}
	for _, f := range change {
		f(&cfg)
	}
	own := clock.System()
	group := seamtest.New(own.Now, l)
	if cfg.TokenFloor != nil {
		floor, err := cfg.TokenFloor(t.Context())
		_, _, err2 := group.Propose(t.Context(), seam.Urgent, fsm.Encode(fsm.Raise{Counter: uint64(floor)}))
		if err := errors.Join(err, err2); err != nil {
			t.Fatal(err)
		}
	}
	node := nodeOn(t, group, cfg)
	c, err := holdfast.Open(simenv.With(t.Context(), simenv.Env{Clock: own, Node: node}), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.Ready(within(t, 10*time.Second)); err != nil {
		t.Fatal(err)
	}
	return c, group
}

// nodeOn is a node on a group in memory, or a client of a replica that is one.
func nodeOn(t testing.TB, group *seamtest.Group, cfg holdfast.Config) func(seam.Listener) seam.Node {
	t.Helper()
	if !strings.HasPrefix(t.Name(), onClient+"/") {
		return seamtest.NewNode(group, cfg.Name, cfg.Logger)
	}
	r, err := clienttest.New(transport.NewMemory(1), group)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r.Client(cfg.Name, cfg.Logger)
}
