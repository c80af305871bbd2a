package chdb

import (
	"errors"
	"unsafe"
)

// Stage is how far the statements of a session are carried out, numbered as in ClickHouse.
type Stage int32

// Stages. FetchColumns only reads, and States leaves aggregates as states that another
// server merges: these are for a server that was asked by another one.
const (
	FetchColumns Stage = iota
	States
	Complete
	StatesToFinal      // after aggregation, which needs no merging
	StatesToFinalLimit // the same, with LIMIT applied
)

// errLayout is an engine whose sessions are not laid out as the one that this was written for.
var errLayout = errors.New("set the stage of a session of the ClickHouse engine: this release of the engine " +
	"keeps it in another place; package chdb has to be adapted")

// SetStage says how far the statements of the session are carried out from now on.
//
// The C interface of the library cannot say that, so the field of the engine's object is written. It is found by
// what is around it, and nothing is written when that differs. Only tests of clusters use this.
func (c *Conn) SetStage(s Stage) error {
	if c.stage == nil {
		if c.stage = c.findStage(); c.stage == nil {
			return errLayout
		}
	}
	*c.stage = s
	return nil
}

// clientSize is how many bytes of the engine's object are searched. It is larger than that.
const clientSize = 6 << 10

// around is what stands behind the stage, as 64-bit words: the kind of query in the upper half of its own word, an
// empty list, four flags that are off, and three streams, which are addresses.
func (c *Conn) findStage() (found *Stage) {
	client := *(*unsafe.Pointer)(unsafe.Pointer(*c.handle))
	for at := uintptr(0); at < clientSize; at += 8 {
		words := (*[8]uint64)(unsafe.Add(client, at))
		const initialQuery = 1
		if words[0]&0xff_ffff_ffff != initialQuery<<32|uint64(Complete) || words[1]|words[2]|words[3]|words[4]&0xffffffff != 0 ||
			!address(words[5]) || !address(words[6]) || !address(words[7]) {
			continue
		}
		if found != nil {
			return nil // two places look alike
		}
		found = (*Stage)(unsafe.Pointer(&words[0]))
	}
	return found
}

// address tells whether word can be one of a process.
func address(word uint64) bool { return word > 1<<20 && word < 1<<47 && word%8 == 0 }
