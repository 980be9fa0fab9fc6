package relay

import (
	"strings"
	"testing"
)

func TestWhatIsSentToAProcessIsKeptFromItsBeginningAndWhatItAnswersIsNot(t *testing.T) {
	t.Parallel()
	r, all := fleet(t, 2)
	before, unheard := connect(t, r, all, 0, 1)
	say(t, before, "not kept")
	if got, _ := read(unheard, len("not kept"), patience); got != "not kept" {
		t.Fatalf("%q arrived", got)
	}
	r.Record()
	client, server := connect(t, r, all, 0, 1)
	long := strings.Repeat("x", streamKept+1)
	say(t, client, "first"+long)
	if got, _ := read(server, 5, patience); got != "first" {
		t.Fatalf("%q arrived", got)
	}
	if got, _ := read(server, len(long), patience); got != long {
		t.Fatalf("%d bytes arrived", len(got))
	}
	say(t, server, "answer")
	if got, _ := read(client, len("answer"), patience); got != "answer" {
		t.Fatalf("%q came back", got)
	}
	for i := range packetsKept + 10 {
		all[0].send(t, r.Route(0, 1).Gossip, "packet")
		if got, _ := all[1].hear(t, patience); got != "packet" {
			t.Fatalf("packet %d: %q", i, got)
		}
	}

	streams, packets := r.Sent(1)
	if len(streams) != 1 || !strings.HasPrefix(string(streams[0]), "first") || len(streams[0]) != streamKept {
		t.Errorf("%d streams are kept", len(streams))
	}
	if len(packets) != packetsKept || string(packets[0]) != "packet" {
		t.Errorf("%d packets are kept", len(packets))
	}
	if streams, packets := r.Sent(0); len(streams)+len(packets) > 0 {
		t.Errorf("of process 0, %d streams and %d packets", len(streams), len(packets))
	}
}
