// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// T1: connections that commands make to a port of the loopback are handed, one by one, to whom the sandbox was given; nothing is
// connected to from here. T2: what waits is bounded in number and in time. T3: bytes of one direction are never more than one
// buffer: who reads slowly slows down who writes.

const (
	waitingConnections = 16
	waitingFor         = 30 * time.Second
	tunnelBuffer       = 64 << 10
	frameData          = 1
)

type tunnel struct {
	mu      sync.Mutex
	port    int
	waiting chan *net.TCPConn
}

func newTunnel() *tunnel { return &tunnel{waiting: make(chan *net.TCPConn, waitingConnections)} }

// open listens. Asked again for the same port it says the same.
func (t *tunnel) open(w http.ResponseWriter, r *http.Request) {
	port, err := strconv.Atoi(r.URL.Query().Get("port"))
	if err != nil || port < 1 || port > 65535 {
		refuse(w, http.StatusBadRequest, "INVALID", "port must be a number of a port")
		return
	}
	if err := t.listen(port); err != nil {
		refuse(w, http.StatusConflict, "START", err.Error())
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func (t *tunnel) listen(port int) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.port == port {
		return nil
	}
	if t.port != 0 {
		return errors.New("there is a tunnel of port " + strconv.Itoa(t.port))
	}
	listener, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port})
	if err != nil {
		return err
	}
	t.port = port
	go t.accept(listener)
	return nil
}

func (t *tunnel) accept(listener *net.TCPListener) {
	for {
		connection, err := listener.AcceptTCP()
		if err != nil {
			time.Sleep(lookEvery) // No descriptor is free, say: commands have opened too many.
			continue
		}
		select {
		case t.waiting <- connection:
		case <-time.After(waitingFor): // T2
			connection.Close()
		}
	}
}

// pass waits for the next connection and carries its bytes: the request's body to the command, frames to the caller.
func (t *tunnel) pass(w http.ResponseWriter, r *http.Request) {
	controller := http.NewResponseController(w)
	_ = controller.EnableFullDuplex() // HTTP/2 always is.
	w.Header().Set("content-type", "application/octet-stream")
	writer := &frames{w: w, controller: controller}
	stop := writer.keepAlive()
	defer stop()
	select {
	case connection := <-t.waiting:
		defer connection.Close()
		carry(connection, writer, r.Body)
	case <-r.Context().Done():
	}
}

// carry returns when both directions are over, or one of them is broken.
func carry(connection *net.TCPConn, writer *frames, body io.Reader) {
	var sending sync.WaitGroup
	sending.Add(1)
	go func() {
		defer sending.Done()
		if _, err := io.Copy(connection, body); err != nil {
			connection.Close() // The caller has gone.
			return
		}
		_ = connection.CloseWrite()
	}()
	if sendAll(connection, writer) != nil {
		return // With it the body's reader ends.
	}
	sending.Wait()
}

func sendAll(connection *net.TCPConn, writer *frames) error {
	buffer := make([]byte, tunnelBuffer)
	for sent := int64(0); ; {
		read, err := connection.Read(buffer)
		if read > 0 {
			if err := writer.send(frameData, sent, buffer[:read]); err != nil {
				return err
			}
			sent += int64(read)
		}
		if errors.Is(err, io.EOF) {
			return writer.send(frameEnd, sent, nil)
		}
		if err != nil {
			return err
		}
	}
}
