package tuslock_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/tus/tusd/v2/pkg/handler"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/contrib/tuslock"
	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/internal/testlog"
)

// broken is an upload whose request stays open at the first node with half of its content sent, as
// a request does whose client has gone without a word.
type broken struct {
	nodes   []*holdfast.Cluster
	urls    []string // of the upload, at each node
	client  *http.Client
	content string
	file    string
	ended   chan error // how the request has ended
}

func breakUpload(t *testing.T) *broken {
	t.Helper()
	dir := t.TempDir()
	b := &broken{nodes: holdfasttest.Fleet(t, 3), client: newClient(t), ended: make(chan error, 1)}
	var bases []string
	for _, node := range b.nodes {
		bases = append(bases, server(t, node, dir))
	}
	random := make([]byte, 1<<20)
	for i := range random {
		random[i] = byte(rand.IntN(256))
	}
	b.content = string(random)
	id := created(t, b.client, bases[0], len(b.content))
	for _, base := range bases {
		b.urls = append(b.urls, base+id)
	}
	b.file = filepath.Join(dir, id)

	body, rest := io.Pipe()
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience) // who awaits its end gives up before
	// The client waits for who reads the body, also when the request is over.
	context.AfterFunc(ctx, func() { body.CloseWithError(context.Cause(ctx)) })
	var wg sync.WaitGroup
	wg.Go(func() {
		resp, err := request(ctx, b.client, http.MethodPatch, b.urls[0], body, "Upload-Offset", "0")
		if err == nil {
			err = fmt.Errorf("%s", resp.Status)
		}
		body.CloseWithError(err)
		b.ended <- err
	})
	t.Cleanup(func() {
		cancel()
		wg.Wait()
	})
	if _, err := io.WriteString(rest, b.content[:len(b.content)/2]); err != nil {
		t.Fatal(err)
	}
	return b
}

// resume goes on at a node, and asserts that all has arrived.
func (b *broken) resume(t *testing.T, node int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	resp, err := request(ctx, b.client, http.MethodHead, b.urls[node], nil)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("HEAD: %v, %v", resp, err)
	}
	offset, err := strconv.Atoi(resp.Header.Get("Upload-Offset"))
	if err != nil || offset > len(b.content)/2 {
		t.Fatalf("offset %d, %v", offset, err)
	}
	resp, err = request(ctx, b.client, http.MethodPatch, b.urls[node], strings.NewReader(b.content[offset:]), "Upload-Offset", strconv.Itoa(offset))
	if err != nil || resp.StatusCode != http.StatusNoContent {
		t.Fatalf("PATCH: %v, %v", resp, err)
	}
	if got, err := os.ReadFile(b.file); err != nil || string(got) != b.content {
		t.Errorf("%d bytes arrived, want the %d that were sent; %v", len(got), len(b.content), err)
	}
}

// No time-out of the handler or the lease helps here: the request that has the lock must be asked
// for it.
func TestABrokenUploadIsResumedAtAnotherNode(t *testing.T) {
	t.Parallel()
	b := breakUpload(t)
	b.resume(t, 1)
	if err := await(t, b.ended); err != nil && !strings.HasPrefix(err.Error(), "4") && !strings.HasPrefix(err.Error(), "5") {
		t.Logf("the broken request ended without an answer: %v", err)
	}
}

func TestALossEndsTheRequestThatUploads(t *testing.T) {
	t.Parallel()
	b := breakUpload(t)
	if err := b.nodes[0].Close(); err != nil {
		t.Fatal(err)
	}
	await(t, b.ended)
	b.resume(t, 2)
}

func TestARequestThatGivesUpWaitingIsToldSo(t *testing.T) {
	t.Parallel()
	locker := tuslock.New(holdfasttest.Fleet(t, 1)[0], "uploads/")
	newLock := func() handler.Lock {
		l, err := locker.NewLock("id")
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	holder, other := newLock(), newLock()
	asked := make(chan struct{})
	if err := holder.Lock(t.Context(), func() { close(asked) }); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var wg sync.WaitGroup
	wg.Go(func() {
		await(t, asked) // the holder does not give it up
		cancel()
	})
	never := func() { t.Error("a lock that was never held is asked for") }
	if err := other.Lock(ctx, never); !errors.Is(err, handler.ErrLockTimeout) {
		t.Errorf("Lock: %v", err)
	}
	wg.Wait()
	if err := other.Unlock(); err == nil {
		t.Error("a lock that is not held was released")
	}
	if err := holder.Unlock(); err != nil {
		t.Error(err)
	}
}

func TestWhatReleasesItsLockIsNotAskedForIt(t *testing.T) {
	t.Parallel()
	locker := tuslock.New(holdfasttest.Fleet(t, 1)[0], "uploads/")
	for range 20 {
		l, err := locker.NewLock("id")
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(l.Lock(t.Context(), func() { t.Error("asked") }), l.Unlock()); err != nil {
			t.Fatal(err)
		}
	}
}

func wrong(c *holdfast.Cluster, prefix string) error {
	_, err := tuslock.New(c, prefix).NewLock("id")
	return err
}

func TestOptionsThatEndTheExclusionAreRefused(t *testing.T) {
	t.Parallel()
	node := holdfasttest.Fleet(t, 1)[0]
	for _, option := range []holdfast.Option{holdfast.WithManualRenew(), holdfast.WithShared(), holdfast.WithLimit(2), holdfast.WithTTL(1)} {
		if _, err := tuslock.New(node, "uploads/", option).NewLock("id"); !errors.Is(err, holdfast.ErrInvalid) {
			t.Errorf("a wrong option: %v", err)
		}
	}
	for what, err := range map[string]error{"prefix": wrong(node, "a\nb"), "no cluster": wrong(nil, "uploads/")} {
		if !errors.Is(err, holdfast.ErrInvalid) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// An upload that nobody could have made is none, and no fault of the server.
func TestAnIDThatNamesNoLockIsNotFound(t *testing.T) {
	t.Parallel()
	var log testlog.Lines
	base, client := loggingServer(t, holdfasttest.Fleet(t, 1)[0], t.TempDir(), &log), newClient(t)
	for _, id := range []string{"a%0Ab", "a%FFb", strings.Repeat("a", 600), "never-made"} {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		resp, err := request(ctx, client, http.MethodHead, base+id, nil)
		cancel()
		if err != nil {
			t.Fatal(err)
		}
		if resp.StatusCode != http.StatusNotFound {
			t.Errorf("%.9q: %s", id, resp.Status)
		}
	}
	if log.Count("level=ERROR") > 0 {
		t.Errorf("strangers have caused errors in the log:\n%s", log.String())
	}
}
