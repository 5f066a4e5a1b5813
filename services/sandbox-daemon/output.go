// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"sync"
)

const (
	// What is kept for a reader that comes back. A command that writes more than its reader takes waits.
	keptBytes    = 4 << 20
	socketBuffer = 256 << 10
)

type chunk struct {
	sequence int64
	stream   byte
	data     []byte
}

// output is what a command wrote, by the number of its byte. O1: at most keptBytes are kept. O2: what no reader was sent is never
// dropped while the command may live.
type output struct {
	mu     sync.Mutex
	change *sync.Cond
	chunks []chunk
	start  int64
	total  int64
	sent   int64
	// Nobody waits any longer: the rest is dropped.
	isOver bool
	ended  bool
}

func newOutput() *output {
	o := &output{}
	o.change = sync.NewCond(&o.mu)
	return o
}

// add keeps the bytes, waiting for room. It returns how many there are in all.
func (o *output) add(stream byte, data []byte) int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	for !o.isOver && o.total-o.start+int64(len(data)) > keptBytes && !o.dropSent(int64(len(data))) {
		o.change.Wait()
	}
	if o.isOver && o.total-o.start > keptBytes {
		return o.total
	}
	o.chunks = append(o.chunks, chunk{o.total, stream, data})
	o.total += int64(len(data))
	o.change.Broadcast()
	return o.total
}

// dropSent makes room by forgetting the oldest that was sent.
func (o *output) dropSent(wanted int64) bool {
	for len(o.chunks) > 0 && o.total-o.start+wanted > keptBytes {
		first := o.chunks[0]
		end := first.sequence + int64(len(first.data))
		if end > o.sent {
			return false
		}
		o.chunks = o.chunks[1:]
		o.start = end
	}
	return true
}

// next waits for bytes from a number on. isLost: they are no longer there. isEnd: there are no more.
func (o *output) next(ctx context.Context, from int64) (found []chunk, isLost, isEnd bool) {
	stop := context.AfterFunc(ctx, func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.change.Broadcast()
	})
	defer stop()
	o.mu.Lock()
	defer o.mu.Unlock()
	for ctx.Err() == nil {
		if from < o.start {
			return nil, true, false
		}
		if from < o.total {
			return o.since(from), false, false
		}
		if o.ended {
			return nil, false, true
		}
		o.change.Wait()
	}
	return nil, false, false
}

func (o *output) since(from int64) []chunk {
	var found []chunk
	for _, each := range o.chunks {
		known := from - each.sequence
		if known >= int64(len(each.data)) {
			continue
		}
		if known > 0 {
			each = chunk{from, each.stream, each.data[known:]}
		}
		found = append(found, each)
	}
	return found
}

func (o *output) wasSent(upTo int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.sent = max(o.sent, upTo)
	o.change.Broadcast()
}

func (o *output) giveUp() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.isOver = true
	o.change.Broadcast()
}

func (o *output) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ended, o.isOver = true, true
	o.change.Broadcast()
}
