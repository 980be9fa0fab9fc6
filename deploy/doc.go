// Package deploy has no code. Its tests check the manifests beside it: against the types of
// Kubernetes' and compose's own code, against each other, and against the program that they run.
package deploy
