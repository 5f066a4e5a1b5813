// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"testing"
	"time"
)

func TestOutputKeepsWhatNoReaderWasSent(t *testing.T) {
	o := newOutput()
	part := bytes.Repeat([]byte("x"), keptBytes/2)
	o.add(streamOut, part)
	o.add(streamOut, part)
	added := make(chan struct{})
	go func() {
		o.add(streamOut, part)
		close(added)
	}()
	select {
	case <-added:
		t.Fatal("a writer did not wait for its reader")
	case <-time.After(50 * time.Millisecond):
	}
	o.wasSent(int64(len(part)))
	<-added
	if _, isLost, _ := o.next(context.Background(), 0); !isLost {
		t.Error("bytes that were dropped are not said to be lost")
	}
	found, isLost, _ := o.next(context.Background(), int64(len(part))+7)
	if isLost || len(found) != 2 || found[0].sequence != int64(len(part))+7 {
		t.Errorf("a reader that comes back does not get the byte after its last one: %v", len(found))
	}
}

func TestOutputOfAKilledCommandWaitsForNobody(t *testing.T) {
	o := newOutput()
	o.giveUp()
	for range 10 {
		o.add(streamOut, bytes.Repeat([]byte("x"), keptBytes/2))
	}
	o.end()
	if kept := o.total - o.start; kept > 2*keptBytes {
		t.Errorf("%d bytes are kept", kept)
	}
}

func TestOutputEnds(t *testing.T) {
	o := newOutput()
	o.add(streamErr, []byte("abc"))
	o.end()
	if _, _, isEnd := o.next(context.Background(), 3); !isEnd {
		t.Error("there is no end")
	}
}
