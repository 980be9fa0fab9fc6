package main

import (
	"strings"
	"testing"
)

func TestSectionScaleIsDrawnByItsMedians(t *testing.T) {
	t.Parallel()
	lines := "goos: linux\n" +
		"BenchmarkScalePair/nodes=5\t10\t2e-05 sec/op\t1e-05 cpu-sec/op\n" +
		"BenchmarkScaleIdle/nodes=30\t1\t0.05 cores\n" +
		"BenchmarkScalePair/nodes=30\t10\t4e-05 sec/op\t9e-05 cpu-sec/op\n" +
		"BenchmarkScalePair/nodes=30\t10\t8e-05 sec/op\t2e-05 cpu-sec/op\n" +
		"BenchmarkScalePair/nodes=30\t10\t1e-05 sec/op\t3e-05 cpu-sec/op\n"
	var svg strings.Builder
	if err := drawScale(strings.NewReader(lines), &svg); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"5 nodes = 1", ">30 nodes<", ">3.00<", ">0.50<"} {
		if !strings.Contains(svg.String(), want) {
			t.Errorf("%q is not in %s", want, svg.String())
		}
	}
	if err := drawScale(strings.NewReader("PASS\n"), &svg); err == nil {
		t.Error("a file without lines of the section is drawn")
	}
}
