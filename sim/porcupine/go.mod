module github.com/holdfast-go/holdfast/sim/porcupine

go 1.26.0

require (
	github.com/anishathalye/porcupine v1.3.1
	github.com/holdfast-go/holdfast v0.0.0-00010101000000-000000000000
)

require (
	github.com/tidwall/btree v1.8.1 // indirect
	google.golang.org/protobuf v1.36.12 // indirect
)

replace github.com/holdfast-go/holdfast => ../..
