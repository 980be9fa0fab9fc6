package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// usage is what some processes and their children take.
type usage struct {
	cpu      time.Duration // user and system
	resident int64         // bytes; pages that several have count for each
	own      int64         // bytes without those of files, such as programs; divided among sharers
}

// tick is the unit of processor time in /proc, the same on all systems that Go runs on.
const tick = time.Second / 100

// measureUsage adds up what processes take, with their children. It needs Linux's /proc.
func measureUsage(roots []int) (u usage, err error) {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil || len(stats) == 0 {
		return u, fmt.Errorf("no /proc: %w", os.ErrNotExist)
	}
	parents := make(map[int]int)
	times := make(map[int]time.Duration)
	for _, name := range stats {
		text, err := os.ReadFile(name)
		if err != nil {
			continue // it has ended
		}
		if pid, parent, cpu, ok := parseStat(string(text)); ok {
			parents[pid], times[pid] = parent, cpu
		}
	}
	wanted := make(map[int]bool)
	for _, pid := range roots {
		wanted[pid] = true
	}
	for pid := range times {
		for p := pid; p > 1; p = parents[p] {
			if wanted[p] {
				u.cpu += times[pid]
				resident, own := memory(pid)
				u.resident, u.own = u.resident+resident, u.own+own
				break
			}
		}
	}
	return u, nil
}

// parseStat reads a process's number, its parent's, and its processor time.
func parseStat(text string) (pid, parent int, cpu time.Duration, ok bool) {
	head, rest, found := strings.Cut(text, " (")
	end := strings.LastIndex(rest, ") ") // a program's name may have brackets
	if !found || end < 0 {
		return 0, 0, 0, false
	}
	fields := strings.Fields(rest[end+2:])
	if len(fields) < 13 {
		return 0, 0, 0, false
	}
	pid, err1 := strconv.Atoi(head)
	parent, err2 := strconv.Atoi(fields[1])
	user, err3 := strconv.Atoi(fields[11])
	system, err4 := strconv.Atoi(fields[12])
	ok = err1 == nil && err2 == nil && err3 == nil && err4 == nil
	return pid, parent, time.Duration(user+system) * tick, ok
}

// memory is the resident memory of a process, and what of it is no page of a file.
func memory(pid int) (resident, own int64) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		return 0, 0
	}
	for line := range strings.Lines(string(text)) {
		var kilobytes int64
		switch {
		case strings.HasPrefix(line, "Rss:"):
			_, _ = fmt.Sscan(line[4:], &kilobytes)
			resident = kilobytes << 10
		case strings.HasPrefix(line, "Pss_Anon:"), strings.HasPrefix(line, "Pss_Shmem:"):
			_, rest, _ := strings.Cut(line, ":")
			_, _ = fmt.Sscan(rest, &kilobytes)
			own += kilobytes << 10
		}
	}
	return resident, own
}

// busy is the processor time that the machine has spent on anything, over all cores.
func busy() (time.Duration, error) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, err
	}
	var user, nice, system int64
	if _, err := fmt.Sscanf(string(text), "cpu %d %d %d", &user, &nice, &system); err != nil {
		return 0, err
	}
	return time.Duration(user+nice+system) * tick, nil
}
