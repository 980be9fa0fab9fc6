// Package versions tests that versions of the library run beside each other: a pinned earlier commit of
// feature level 1, this tree, of level 2, and this tree with the tag holdfast_next, of level 3. Each is a program of
// its own, built from the same source (worker), and the nodes of one fleet are processes of them.
package versions
