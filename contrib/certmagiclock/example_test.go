package certmagiclock_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/caddyserver/certmagic"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/contrib/certmagiclock"
)

func Example() {
	ctx := context.Background()
	c, err := holdfast.Open(ctx, holdfast.Config{}) // in a fleet: Join
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	dir, err := os.MkdirTemp("", "certificates-") // in a fleet: what all processes share
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	storage, err := certmagiclock.New(&certmagic.FileStorage{Path: dir}, c)
	if err != nil {
		log.Fatal(err)
	}
	var config certmagic.Config // for certmagic.New
	config.Storage = storage

	if err := storage.Lock(ctx, "issue_cert_example.org"); err != nil { // CertMagic does that
		log.Fatal(err)
	}
	info, err := c.Inspect(ctx, certmagiclock.Prefix+"issue_cert_example.org")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("processes that order a certificate:", len(info.Holders))
	if err := storage.Unlock(ctx, "issue_cert_example.org"); err != nil {
		log.Fatal(err)
	}
	// Output: processes that order a certificate: 1
}
