.PHONY: lines test race vet lint fuzz bench fleet ci

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
ci:
	.ci/run
lines:
	.ci/lines
