package porcupine_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/sim/internal/history"
	"github.com/holdfast-go/holdfast/sim/internal/model"
	"github.com/holdfast-go/holdfast/sim/porcupine"
)

const patience = 20 * time.Second

// Fleets under faults by seed: every lock must have behaved as one object. The seed is printed with
// a failure.
func TestHistoriesOfTheModelAreLinearizable(t *testing.T) {
	t.Parallel()
	seeds := uint64(30)
	if testing.Short() {
		seeds = 8
	}
	ops, verified := 0, 0
	for seed := uint64(1); seed <= seeds; seed++ {
		r := model.Run(model.Random(seed))
		if r.Violation != nil {
			t.Fatalf("seed %d: %v", seed, r.Violation)
		}
		verdicts, err := porcupine.Check(r.History, patience, 1)
		if err != nil {
			t.Errorf("seed %d: %v", seed, err)
		}
		for _, v := range verdicts {
			ops += v.Ops
		}
		verified += history.Measure(r.History).Verified
	}
	t.Logf("%d operations, %d tokens verified", ops, verified)
	if ops < 500*int(seeds)/10 || verified == 0 {
		t.Error("vacuous histories")
	}
}

// Histories of real fleets: the random test of the root writes them into the directory of
// HOLDFAST_HISTORY.
func TestStoredHistoriesAreLinearizable(t *testing.T) {
	t.Parallel()
	dir := os.Getenv("HOLDFAST_HISTORY")
	if dir == "" {
		t.Skip("HOLDFAST_HISTORY names no directory")
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no histories in %s: %v", dir, err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		var h []history.Event
		if err := json.Unmarshal(text, &h); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		total := 0
		for _, line := range history.Lines(h) { // a fleet that goes back to a backup forgets
			verdicts, err := porcupine.Check(line, patience, 0)
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			for _, v := range verdicts {
				total += v.Ops
			}
		}
		if total < 300 {
			t.Errorf("%s: %d operations prove nothing", name, total)
		}
		t.Logf("%s: %d operations", filepath.Base(name), total)
	}
}
