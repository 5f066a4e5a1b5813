// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"log"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync"
	"time"
)

// P1: there is one caller, who holds the other end of standard input and output; commands have pipes of their own, and cannot open
// those of this process (it is not dumpable). P2: when that end is closed, which the kernel does for a caller that was killed, this
// process ends, and with it, as the first of its container, all that the sandbox holds. P3: so it does when its time is over.

const maxPrepared = 16 << 30 // The workspace's own size is the limit.

// servePipe answers HTTP/2 without TLS over standard input and output, where one connection has to do.
func servePipe(args []string) error {
	if len(args) != 1 {
		return errors.New(usage)
	}
	ttlMs, err := strconv.ParseInt(args[0], 10, 64)
	if err != nil || ttlMs <= 0 {
		return errors.New(usage)
	}
	if err := protect(); err != nil {
		return err
	}
	root, err := os.OpenRoot(workspace)
	if err != nil {
		return err
	}
	time.AfterFunc(time.Duration(ttlMs)*time.Millisecond, func() { os.Exit(0) })
	s := &server{executions: newExecutions(), files: &files{root: root}, tunnel: newTunnel()}
	go s.executions.watch()
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	http := &http.Server{Handler: s.pipeRoutes(), Protocols: &protocols, ErrorLog: log.New(quiet{}, "", 0)}
	if err := http.Serve(&onePipe{over: make(chan struct{})}); !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

func (s *server) pipeRoutes() http.Handler {
	mux := http.NewServeMux()
	for pattern, handler := range s.calls() {
		most := int64(maxRequest)
		if pattern == "PUT /prepared" {
			most = maxPrepared
		}
		mux.HandleFunc(pattern, bounded(pattern, most, handler))
	}
	return mux
}

// onePipe is a listener that has one connection: standard input and output.
type onePipe struct {
	given bool
	once  sync.Once
	over  chan struct{}
}

func (p *onePipe) Accept() (net.Conn, error) {
	if !p.given {
		p.given = true
		return &pipe{p}, nil
	}
	<-p.over
	return nil, net.ErrClosed
}

func (p *onePipe) Addr() net.Addr { return pipeAddress{} }

func (p *onePipe) Close() error {
	p.once.Do(func() { close(p.over) })
	return nil
}

type pipe struct{ listener *onePipe }

func (c *pipe) Read(into []byte) (int, error)  { return os.Stdin.Read(into) }
func (c *pipe) Write(from []byte) (int, error) { return os.Stdout.Write(from) }
func (c *pipe) Close() error                   { return c.listener.Close() }

func (*pipe) LocalAddr() net.Addr              { return pipeAddress{} }
func (*pipe) RemoteAddr() net.Addr             { return pipeAddress{} }
func (*pipe) SetDeadline(time.Time) error      { return nil }
func (*pipe) SetReadDeadline(time.Time) error  { return nil }
func (*pipe) SetWriteDeadline(time.Time) error { return nil }

type pipeAddress struct{}

func (pipeAddress) Network() string { return "pipe" }
func (pipeAddress) String() string  { return "pipe" }
