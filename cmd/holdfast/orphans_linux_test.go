package main

import "testing"

// Each job of a scheduler that starts them in the background stayed in the table of processes until
// the command ended.
func TestTheOrphansOfACommandAreWaitedFor(t *testing.T) {
	t.Parallel()
	const script = `for i in 1 2 3 4 5; do (sleep 0.1 &); done
tries=300; left=5
while [ $left -gt 0 ] && [ $tries -gt 0 ]; do
	sleep 0.1; tries=$((tries-1)); left=0
	for process in /proc/[0-9]*/stat; do
		read -r line < $process || continue
		set -- $line
		if [ "$2" = "(sleep)" ] && [ "$4" = $PPID ]; then left=$((left+1)); fi
	done
done 2>/dev/null
echo $left`
	f := newFleet(t, 1)
	if r := f.run(t, "run", "job", "--", "sh", "-c", script); r.code != 0 || r.out != "0\n" {
		t.Errorf("%q are left (code %d): %s", r.out, r.code, r.err)
	}
}
