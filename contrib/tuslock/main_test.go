package tuslock_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/tus/tusd/v2/pkg/filestore"
	"github.com/tus/tusd/v2/pkg/handler"
	"go.uber.org/goleak"
	"golang.org/x/exp/slog"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/contrib/tuslock"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is far more than anything here takes.
const patience = 90 * time.Second

// await returns what comes from a channel.
func await[T any](t *testing.T, from <-chan T) (value T) {
	t.Helper()
	select {
	case value = <-from:
	case <-time.After(patience):
		t.Error("nothing came in time")
	}
	return value
}

// server serves the uploads of a directory under the locks of a node.
func server(t *testing.T, c *holdfast.Cluster, dir string) string {
	t.Helper()
	return loggingServer(t, c, dir, io.Discard)
}

func loggingServer(t *testing.T, c *holdfast.Cluster, dir string, log io.Writer) string {
	t.Helper()
	composer := handler.NewStoreComposer()
	filestore.New(dir).UseIn(composer)
	tuslock.New(c, "uploads/").UseIn(composer)
	h, err := handler.NewHandler(handler.Config{
		BasePath: "/files/", StoreComposer: composer, Logger: slog.New(slog.NewTextHandler(log, nil)),
		AcquireLockTimeout: patience, NetworkTimeout: 2 * patience, // a test that needs them fails at its own end
		GracefulRequestCompletionTimeout: 50 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(http.StripPrefix("/files/", h))
	t.Cleanup(s.Close)
	return s.URL + "/files/"
}

// request is one of the tus protocol. Its body is sent when the server begins to read it, which it
// does under the lock.
func request(ctx context.Context, client *http.Client, method, url string, body io.Reader, header ...string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Tus-Resumable", "1.0.0")
	if body != nil {
		req.Header.Set("Expect", "100-continue")
		req.Header.Set("Content-Type", "application/offset+octet-stream")
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return resp, err
}

// newClient has connections of its own.
func newClient(t *testing.T) *http.Client {
	transport := &http.Transport{ExpectContinueTimeout: 2 * patience}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// created begins an upload and returns its ID.
func created(t *testing.T, client *http.Client, base string, length int) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	resp, err := request(ctx, client, http.MethodPost, base, nil, "Upload-Length", fmt.Sprint(length))
	if err != nil || resp.StatusCode != http.StatusCreated {
		t.Fatalf("POST: %v, %v", resp, err)
	}
	location := resp.Header.Get("Location")
	return location[strings.LastIndexByte(location, '/')+1:]
}
