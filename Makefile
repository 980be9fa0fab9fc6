.PHONY: quick lines test race vet lint fuzz bench fleet outsider ci

test:
	.ci/run test
quick:
	.ci/run quick
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
outsider:
	cd tools && HOLDFAST_OUTSIDER=1 go test -count=1 -timeout 30m -run Outsider ./release
ci:
	.ci/run
lines:
	.ci/lines
