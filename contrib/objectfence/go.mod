module github.com/holdfast-go/holdfast/contrib/objectfence

go 1.26.0

replace github.com/holdfast-go/holdfast => ../..

require github.com/holdfast-go/holdfast v0.0.0-00010101000000-000000000000
