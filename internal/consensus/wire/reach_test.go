package wire

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"
)

func TestAReplicaOutOfReachIsOneLineAndItsReturnAnother(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	r := &reach{log: slog.New(slog.NewTextHandler(&log, nil))}
	broken, now := errors.New("broken"), time.Unix(1000, 0)
	r.heard("a:1", now)
	r.failed("a:1", broken, now)
	r.heard("a:1", now.Add(time.Second)) // it was only started anew
	r.failed("a:1", broken, now.Add(time.Minute))
	if log.Len() > 0 {
		t.Errorf("a short outage: %s", log.String())
	}
	for i := range 100 {
		r.failed("a:1", broken, now.Add(time.Minute+time.Duration(i)*time.Second))
	}
	if text := log.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, "WARN") || !strings.Contains(text, "a:1") {
		t.Errorf("a long one: %s", text)
	}
	r.heard("a:1", now.Add(time.Hour))
	r.heard("a:1", now.Add(time.Hour))
	if text := log.String(); strings.Count(text, "\n") != 2 || !strings.Contains(text, "again") {
		t.Errorf("its end: %s", text)
	}
	for i := range 1000 {
		r.failed(fmt.Sprint("gone:", i), broken, now)
	}
	if len(r.lost) > reachMax {
		t.Errorf("%d addresses are remembered", len(r.lost))
	}
}
