package metrics

import (
	"fmt"
	"reflect"
	"regexp"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
)

// print is all values of all figures.
func print(s Snapshot) string {
	var text string
	for _, f := range Figures() {
		text += fmt.Sprintln(f.Name, f.Read(s))
	}
	return text
}

// TestEachFigureOfANodeIsExported changes one number after the other, so a figure that is added
// later is not forgotten.
func TestEachFigureOfANodeIsExported(t *testing.T) {
	t.Parallel()
	s := Snapshot{Status: holdfast.Status{Metrics: holdfast.Metrics{
		Refused: map[string]uint64{"held": 0}, Lost: map[string]uint64{"expired": 0},
	}}}
	var walk func(path string, v reflect.Value)
	walk = func(path string, v reflect.Value) {
		before := print(s)
		switch v.Kind() {
		case reflect.Struct:
			for i := range v.NumField() {
				walk(path+"."+v.Type().Field(i).Name, v.Field(i))
			}
			return
		case reflect.Map:
			for _, key := range v.MapKeys() {
				v.SetMapIndex(key, reflect.ValueOf(uint64(7)))
			}
		case reflect.Slice:
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		case reflect.Bool:
			v.SetBool(true)
		case reflect.Float64:
			v.SetFloat(7)
		case reflect.Uint64:
			v.SetUint(7)
		case reflect.Int:
			v.SetInt(7)
		default:
			t.Fatalf("%s is a %v", path, v.Kind())
		}
		if path != ".Queues.Waiting" && print(s) == before { // which is Status.Waiting
			t.Errorf("Metrics%s is not exported", path)
		}
	}
	walk("", reflect.ValueOf(&s.Status.Metrics).Elem())
}

// An alert stands on this figure: it counts what Status.Voters says, and standbys are none.
func TestVotersThatAreIllAreCountedAsStatusHasThem(t *testing.T) {
	t.Parallel()
	ill, well := holdfast.Replica{Ill: "not heard for 3s"}, holdfast.Replica{Heard: time.Hour}
	for want, voters := range [][]holdfast.Replica{{well, well, well}, {well, ill, well}, {ill, well, ill}, {ill, ill, ill}} {
		s := Snapshot{Status: holdfast.Status{Voters: voters, Standbys: []holdfast.Replica{ill, well}}}
		found := 0
		for _, f := range Figures() {
			if f.Name != "voters_ill" {
				continue
			}
			found++
			if p := f.Read(s); len(p) != 1 || p[0].Value != uint64(want) || f.Kind != Gauge {
				t.Errorf("%d of three are ill, and the figure is %+v", want, p)
			}
		}
		if found != 1 {
			t.Errorf("there are %d figures of voters that are ill", found)
		}
	}
}

func TestMembersAreCountedByStateAndRole(t *testing.T) {
	t.Parallel()
	s := Snapshot{Members: []holdfast.Member{
		{State: holdfast.StateAlive, Role: holdfast.RoleVoter}, {State: holdfast.StateAlive, Role: holdfast.RoleVoter},
		{State: holdfast.StateFailed, Role: holdfast.RoleClient},
	}}
	counts := make(map[string]uint64)
	for _, p := range members(s) {
		counts[fmt.Sprint(p.Labels)] = p.Value
	}
	if len(counts) != 12 || counts["[alive voter]"] != 2 || counts["[failed client]"] != 1 || counts["[left standby]"] != 0 {
		t.Errorf("%v", counts)
	}
}

func TestNamesAndLabelsAreOfTheFormThatBothLibrariesTake(t *testing.T) {
	t.Parallel()
	snake := regexp.MustCompile(`^[a-z]+(_[a-z]+)*$`)
	seen := make(map[string]bool)
	for _, f := range append(Figures(), Wait(), Hold(), Jeopardies(), Quorum()) {
		key := fmt.Sprint(f.Name, f.Unit)
		if !snake.MatchString(f.Name) || f.Help == "" || seen[key] || (f.Kind == Histogram) != (f.Unit == Seconds) {
			t.Errorf("%+v", f)
		}
		seen[key] = true
		for _, label := range f.Labels {
			if !snake.MatchString(label) {
				t.Errorf("%s: label %s", f.Name, label)
			}
		}
	}
}

// nobody records nothing.
type nobody struct{}

func (nobody) Wait(string, string, time.Duration) {}
func (nobody) Hold(string, string, time.Duration) {}
func (nobody) Jeopardy()                          {}
func (nobody) Quorum(bool)                        {}

func TestHooksOfTheUserAreCalledWithWhatTheyWouldGetAlone(t *testing.T) {
	t.Parallel()
	var own holdfast.Events
	fields := reflect.ValueOf(&own).Elem()
	var told []any
	for i := range fields.NumField() {
		hook := fields.Field(i)
		hook.Set(reflect.MakeFunc(hook.Type(), func(args []reflect.Value) []reflect.Value {
			for _, arg := range args {
				told = append(told, arg.Interface())
			}
			return zeros(hook.Type().NumOut(), hook.Type().Out)
		}))
	}
	all := reflect.ValueOf(Events(own, nobody{}))
	for i := range all.NumField() {
		hook := all.Field(i)
		args := zeros(hook.Type().NumIn(), hook.Type().In)
		told = nil
		hook.Call(args)
		if len(told) != len(args) {
			t.Errorf("%s: told %d of %d arguments", all.Type().Field(i).Name, len(told), len(args))
		}
	}
	all = reflect.ValueOf(Events(holdfast.Events{}, nobody{})) // and nothing is called that is not there
	for i := range all.NumField() {
		if hook := all.Field(i); !hook.IsNil() {
			hook.Call(zeros(hook.Type().NumIn(), hook.Type().In))
		}
	}
}

func zeros(n int, typ func(int) reflect.Type) []reflect.Value {
	list := make([]reflect.Value, n)
	for i := range list {
		list[i] = reflect.Zero(typ(i))
	}
	return list
}
