package tuslock_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"

	"github.com/tus/tusd/v2/pkg/filestore"
	"github.com/tus/tusd/v2/pkg/handler"
	"golang.org/x/exp/slog"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/contrib/tuslock"
)

// In a service each process has such a handler, with its own node and a store that all share.
func Example() {
	cluster, err := holdfast.Open(context.Background(), holdfast.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer cluster.Close()
	dir, err := os.MkdirTemp("", "uploads-")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)

	composer := handler.NewStoreComposer()
	filestore.New(dir).UseIn(composer)
	tuslock.New(cluster, "uploads/").UseIn(composer)
	uploads, err := handler.NewHandler(handler.Config{
		BasePath: "/files/", StoreComposer: composer, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
		GracefulRequestCompletionTimeout: 1, // default 10 s
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	server := httptest.NewServer(http.StripPrefix("/files/", uploads))
	defer server.Close()

	req, err := http.NewRequest(http.MethodPost, server.URL+"/files/", strings.NewReader("hello"))
	if err != nil {
		fmt.Println(err)
		return
	}
	req.Header.Set("Tus-Resumable", "1.0.0")
	req.Header.Set("Upload-Length", "5")
	req.Header.Set("Content-Type", "application/offset+octet-stream")
	resp, err := server.Client().Do(req)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	fmt.Println(resp.StatusCode, resp.Header.Get("Upload-Offset"))
	// Output: 201 5
}
