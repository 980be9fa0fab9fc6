package seam

import (
	"reflect"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/frozen"
	"github.com/holdfast-go/holdfast/internal/member"
)

// Clients and replicas of several versions are connected to each other: names stay, and a field of a
// later version is skipped.
func TestWhatAReplicaTellsOfItsFleetIsWrittenAndReadAsItWas(t *testing.T) {
	t.Parallel()
	f := Fleet{
		Members:    []Member{{Node: "1", Name: "a", Addr: "h:1", Zone: "z/h", Version: "v", Level: 1, State: member.Alive}},
		Voters:     []Replica{{Node: "1", Name: "a", Addr: "h:1", Heard: time.Second, Behind: 3, Ill: "why"}},
		Standbys:   []Replica{{Node: "2", Heard: -1}},
		RaftLeader: "1", Term: 2, Applied: 300, Level: 1, Plan: "plan", Rise: "rise", Drift: "drift",
	}
	b, err := f.Append(nil)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := ParseFleet(b); err != nil || !reflect.DeepEqual(again, f) {
		t.Errorf("%+v became %+v: %v", f, again, err)
	}
	later := append([]byte(`{"later":[1],`), b[1:]...)
	if again, err := ParseFleet(later); err != nil || !reflect.DeepEqual(again, f) {
		t.Errorf("with a field of a later version it became %+v: %v", again, err)
	}
	for _, bad := range []string{"", "[]", `{"term":-1}`, string(b[:len(b)-1])} {
		if got, err := ParseFleet([]byte(bad)); err == nil || !reflect.DeepEqual(got, Fleet{}) {
			t.Errorf("%q is read as %+v", bad, got)
		}
	}
	frozen.Check(t, "testdata/fleet.v1", append(b, '\n'))
}
