// The program of a client, which links no Raft engine: go build -tags holdfast_client. It takes a
// lock of the fleet that its arguments lead to, and prints the token. Without arguments it would be a
// fleet of its own.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/holdfast-go/holdfast"
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := holdfast.Open(ctx, holdfast.Config{ClientOnly: len(os.Args) > 1, Join: os.Args[1:]})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	err = c.Do(ctx, "lock", func(_ context.Context, l *holdfast.Lease) error {
		_, err := fmt.Println(l.Token())
		return err
	})
	if err != nil {
		log.Print(err)
	}
}
