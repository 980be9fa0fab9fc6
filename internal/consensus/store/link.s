// Empty: with an assembly file in the package, link.go may declare a function without a body.
