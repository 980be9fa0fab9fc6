// Package view is what people and tools see of a group: the values that the page of httpstatus and the
// command holdfast show, with the words and the names of JSON that both use. The names are stable:
// httpstatus/testdata/names.golden has them all. Durations are in seconds.
package view
