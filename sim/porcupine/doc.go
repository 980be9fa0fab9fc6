// Package porcupine asks of a history (package sim/internal/history) whether the locks behaved as
// one object that does one thing at a time, each at some moment between its call and its answer.
// The search for such an order is that of github.com/anishathalye/porcupine; this package says what
// a lock does.
//
// It lives in a module of its own because nothing else of Holdfast needs that dependency.
//
// The checkers of sim/internal/history look for single broken promises and take no time; this one
// needs no idea of what might be broken. What it cannot decide in time counts as a failure.
package porcupine
