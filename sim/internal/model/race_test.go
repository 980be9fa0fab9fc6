//go:build race

package model_test

// raced: the race detector makes these tests ten times slower, and there is one goroutine in each
// of them.
const raced = true
