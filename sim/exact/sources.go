package main

// exactRuntime is what the patches of the runtime call.
const exactRuntime = `package runtime

import (
	"internal/runtime/atomic"
	_ "unsafe" // for go:linkname
)

// draw is splitmix64.
//
//go:nosplit
func (b *synctestBubble) draw() uint64 {
	b.lots += 0x9e3779b97f4a7c15
	return exactMix(b.lots)
}

//go:nosplit
func exactMix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// exactBubble is the bubble of the goroutine that runs on this thread, also while it is on the system stack.
//
//go:nosplit
func exactBubble() *synctestBubble {
	gp := getg()
	if gp.bubble == nil && gp.m != nil && gp == gp.m.g0 && gp.m.curg != nil {
		gp = gp.m.curg
	}
	return gp.bubble
}

var exactDrawn atomic.Uint64 // outside of bubbles

func exactRand() uint64 {
	if b := exactBubble(); b != nil {
		return b.draw()
	}
	return exactMix(exactDrawn.Add(1))
}

//go:nosplit
func exactSelect(n uint32) uint32 {
	b := getg().bubble
	if b == nil {
		return cheaprandn(n)
	}
	return uint32(uint64(uint32(b.draw())) * uint64(n) >> 32)
}

// exactTurns counts how often goroutines of bubbles got the processor.
var exactTurns uint32

// exactRuns reports whether a goroutine of a bubble has the processor. The answer may be out of date.
func exactRuns(pp *p) bool {
	mp := pp.m.ptr()
	if mp == nil {
		return false
	}
	gp := mp.curg
	return gp != nil && gp.bubble != nil
}

// tidy collects garbage every twenty seconds of the bubble's time. Its root calls it when nobody else of the bubble runs.
func (b *synctestBubble) tidy() {
	if b.now >= b.collect {
		b.collect = b.now + 20e9
		GC()
	}
}

//go:linkname exactSysrand crypto/internal/sysrand.exactRand
func exactSysrand() uint64 { return exactRand() }

//go:linkname exactSeed testing/synctest.Seed
func exactSeed(seed uint64) {
	b := getg().bubble
	if b == nil {
		panic("synctest.Seed called outside of a bubble")
	}
	b.lots = exactMix(seed)
}

//go:linkname exactLots testing/synctest.Lots
func exactLots() uint64 {
	b := getg().bubble
	if b == nil {
		return 0
	}
	return b.lots
}
`

// exactSysrand fills what asks for random bytes.
const exactSysrand = `package sysrand

import _ "unsafe" // for go:linkname

//go:linkname exactRand
func exactRand() uint64

func exactRead(b []byte) bool {
	for len(b) > 0 {
		x := exactRand()
		for i := 0; i < 8 && len(b) > 0; i++ {
			b[0] = byte(x)
			b, x = b[1:], x>>8
		}
	}
	return true
}
`

// exactSynctest is what package sim calls.
const exactSynctest = `package synctest

import _ "unsafe" // for go:linkname

// Seed makes everything that is left to chance in this bubble follow from seed.
//
//go:linkname Seed
func Seed(seed uint64)

// Lots is the state of this bubble's generator: two runs that have come to the same have drawn as many lots.
//
//go:linkname Lots
func Lots() uint64
`
