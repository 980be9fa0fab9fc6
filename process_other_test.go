//go:build !unix

package holdfast_test

// Tests with processes of their own send signals: see process_test.go.
const processVar = "HOLDFAST_TEST_PROCESS"

func process() int { return 2 }
