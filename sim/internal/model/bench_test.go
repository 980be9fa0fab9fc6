package model_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/sim/internal/model"
)

// One op is one random plan: what the seeds command runs over and over.
func BenchmarkRandomPlans(b *testing.B) {
	var s model.Stats
	for i := range b.N {
		r := model.Run(model.Random(uint64(i)))
		s.Add(r.Stats)
	}
	b.ReportMetric(float64(s.Applied)/b.Elapsed().Seconds(), "commands/s")
	b.ReportMetric(s.Simulated.Seconds()/b.Elapsed().Seconds(), "×real")
}
