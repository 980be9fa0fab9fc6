.PHONY: test race vet lint fuzz bench fleet sim-exact sim-exact-prove ci

test:
	.ci/run test
race:
	.ci/run race
vet:
	.ci/run format vet
lint:
	.ci/run lint
fuzz:
	.ci/run fuzz
bench:
	go test -run '^$$' -bench . -benchmem ./...
fleet:
	.ci/run fleet
# Replays a seed of the real stack exactly; proves that it does. See docs/simulation.md.
sim-exact:
	go run ./sim/exact -seed $(or $(SEED),1)
sim-exact-prove:
	go run ./sim/exact -seed $(or $(SEED),1) -times $(or $(TIMES),6)
ci:
	.ci/run
