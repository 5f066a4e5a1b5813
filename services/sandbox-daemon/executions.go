// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/binary"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"
)

const (
	maxExecutions = 64
	lookEvery     = 100 * time.Millisecond
	aliveEvery    = 5 * time.Second
	minProcesses  = 1
)

// Frames of a stream: kind, number of the first byte, length, data. Kinds beside the two streams:
const (
	frameAlive = 0
	frameEnd   = 3
	frameLost  = 4
)

type executions struct {
	mu   sync.Mutex
	byID map[string]*execution
}

func newExecutions() *executions { return &executions{byID: map[string]*execution{}} }

func (s *executions) start(w http.ResponseWriter, r *http.Request) {
	var request startRequest
	if err := json.NewDecoder(r.Body).Decode(&request); err != nil {
		refuse(w, http.StatusBadRequest, "INVALID", err.Error())
		return
	}
	if request.ID == "" || len(request.Command) == 0 || request.DeadlineMs <= 0 || request.Processes < minProcesses {
		refuse(w, http.StatusBadRequest, "INVALID", "id, command, deadlineMs and processes are needed")
		return
	}
	e, err := s.startOnce(request)
	if err != nil {
		refuse(w, http.StatusServiceUnavailable, "START", err.Error())
		return
	}
	e.stream(w, r, 0)
}

// startOnce starts it, unless that was done: a request may come twice.
func (s *executions) startOnce(request startRequest) (*execution, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e, ok := s.byID[request.ID]; ok {
		return e, nil
	}
	if len(s.byID) >= maxExecutions {
		return nil, syscall.EAGAIN
	}
	e, err := run(request)
	if err == nil {
		s.byID[request.ID] = e
	}
	return e, err
}

func (s *executions) find(w http.ResponseWriter, r *http.Request) *execution {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.byID[r.PathValue("id")]
	if e == nil {
		refuse(w, http.StatusNotFound, "UNKNOWN", "there is no such execution")
	}
	return e
}

func (s *executions) follow(w http.ResponseWriter, r *http.Request) {
	if e := s.find(w, r); e != nil {
		from, _ := strconv.ParseInt(r.URL.Query().Get("from"), 10, 64)
		e.stream(w, r, from)
	}
}

func (s *executions) input(w http.ResponseWriter, r *http.Request) {
	e := s.find(w, r)
	if e == nil {
		return
	}
	data, err := io.ReadAll(r.Body)
	if err != nil {
		refuse(w, http.StatusBadRequest, "INVALID", err.Error())
		return
	}
	at, _ := strconv.ParseInt(r.URL.Query().Get("at"), 10, 64)
	e.write(at, data)
	if r.URL.Query().Has("end") {
		e.input.Close()
	}
	w.WriteHeader(http.StatusNoContent)
}

// end kills it where it runs, and forgets it.
func (s *executions) end(w http.ResponseWriter, r *http.Request) {
	e := s.find(w, r)
	if e == nil {
		return
	}
	e.kill(r.URL.Query().Get("reason"))
	if !r.URL.Query().Has("keep") {
		<-e.done
		s.mu.Lock()
		delete(s.byID, e.request.ID)
		s.mu.Unlock()
	}
	w.WriteHeader(http.StatusNoContent)
}

// watch ends what has lost its keeper, and commands with too many processes.
func (s *executions) watch() {
	for range time.Tick(lookEvery) {
		s.mu.Lock()
		all := processes()
		if os.Getpid() == 1 {
			s.endOrphans(all)
		}
		s.bound(all)
		s.mu.Unlock()
	}
}

// endOrphans: this is the first process, and what it did not start was left by a keeper that its command has ended.
func (s *executions) endOrphans(all []process) {
	own := map[int]bool{}
	for _, e := range s.byID {
		own[e.command.Process.Pid] = true
	}
	for _, each := range all {
		switch {
		case each.parent != 1 || own[each.pid]:
		case each.isZombie:
			_, _ = syscall.Wait4(each.pid, nil, syscall.WNOHANG, nil)
		default:
			killAll(append(below(each.pid, all), each))
		}
	}
}

// bound kills the execution with the most processes when there are too many.
func (s *executions) bound(all []process) {
	total, most := 0, 0
	var worst *execution
	for _, e := range s.byID {
		count := len(below(e.command.Process.Pid, all))
		total += count
		if count > most {
			worst, most = e, count
		}
	}
	if worst != nil && total > worst.request.Processes {
		worst.kill("PROCESSES")
	}
}

// stream sends output from a byte on, and the result when all of it was sent.
func (e *execution) stream(w http.ResponseWriter, r *http.Request, from int64) {
	w.Header().Set("content-type", "application/octet-stream")
	writer := &frames{w: w, controller: http.NewResponseController(w)}
	stop := writer.keepAlive()
	defer stop()
	for {
		found, isLost, isEnd := e.output.next(r.Context(), from)
		switch {
		case isLost:
			_ = writer.send(frameLost, from, nil)
			return
		case isEnd:
			<-e.done
			text, _ := json.Marshal(e.result)
			_ = writer.send(frameEnd, from, text)
			return
		case len(found) == 0:
			return
		}
		for _, each := range found {
			if writer.send(each.stream, each.sequence, each.data) != nil {
				return
			}
			from = each.sequence + int64(len(each.data))
			e.output.wasSent(from)
		}
	}
}

type frames struct {
	mu         sync.Mutex
	w          io.Writer
	controller *http.ResponseController
}

func (f *frames) send(kind byte, sequence int64, data []byte) error {
	head := make([]byte, 13, 13+len(data))
	head[0] = kind
	binary.BigEndian.PutUint64(head[1:], uint64(sequence))
	binary.BigEndian.PutUint32(head[9:], uint32(len(data)))
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, err := f.w.Write(append(head, data...)); err != nil {
		return err
	}
	return f.controller.Flush()
}

// keepAlive tells a reader that a silent command's sandbox is there.
func (f *frames) keepAlive() (stop func()) {
	_ = f.send(frameAlive, 0, nil)
	ticker := time.NewTicker(aliveEvery)
	done := make(chan struct{})
	var ended sync.WaitGroup
	ended.Add(1)
	go func() {
		defer ended.Done()
		for {
			select {
			case <-ticker.C:
				_ = f.send(frameAlive, 0, nil)
			case <-done:
				return
			}
		}
	}()
	return func() {
		ticker.Stop()
		close(done)
		ended.Wait()
	}
}
