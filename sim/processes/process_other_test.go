//go:build !unix

package processes_test

// Tests with processes of their own send signals: see process_test.go.
const processVar = "HOLDFAST_TEST_PROCESS"

func member() int { return 2 }
