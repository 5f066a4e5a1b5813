// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/tls"
	"encoding/json"
	"errors"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"
)

// D1: a connection is taken only from who shows the pod's own certificate, or, after the claim, the episode's. D2: who has the
// pod's can claim and nothing else, and only once. D3: commands find no secret: nothing in files, nothing in the environment, and
// the memory of this process cannot be read (it is not dumpable). D4: no command can end it: it is the first process of the pod.

const (
	address      = ":7443"
	maxRequest   = 96 << 20
	workspace    = "/workspace"
	headerWithin = 10 * time.Second
)

type server struct {
	own        string
	executions *executions
	files      *files
	tunnel     *tunnel
	mu         sync.Mutex
	episode    string
}

func serve() error {
	if err := protect(); err != nil {
		return err
	}
	certificate, err := takeIdentity(identityFile)
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(workspace)
	if err != nil {
		return err
	}
	s := &server{own: fingerprint(certificate.Certificate[0]), executions: newExecutions(), files: &files{root: root}, tunnel: newTunnel()}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	go s.executions.watch()
	return s.httpServer(certificate).ServeTLS(outsideOnly{listener}, "", "")
}

// protect keeps commands, which run as the same user, away from this process.
func protect() error {
	all := make([]os.Signal, 0, 64)
	for number := 1; number < 65; number++ {
		if signal := syscall.Signal(number); signal != syscall.SIGCHLD && signal != syscall.SIGURG {
			all = append(all, signal)
		}
	}
	signal.Ignore(all...)
	return prctl(prSetDumpable, 0)
}

func (s *server) httpServer(certificate tls.Certificate) *http.Server {
	return &http.Server{
		Handler:           s.routes(),
		ReadHeaderTimeout: headerWithin,
		IdleTimeout:       5 * time.Minute,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          log.New(quiet{}, "", 0),
		TLSNextProto:      map[string]func(*http.Server, *tls.Conn, http.Handler){},
		TLSConfig: &tls.Config{
			Certificates:           []tls.Certificate{certificate},
			MinVersion:             tls.VersionTLS13,
			ClientAuth:             tls.RequireAnyClientCert,
			SessionTicketsDisabled: true,
			VerifyConnection:       s.verify,
		},
	}
}

func (s *server) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /claim", s.only(s.isOwner, bounded("", maxRequest, s.claim)))
	for pattern, handler := range s.calls() {
		mux.HandleFunc(pattern, s.only(s.isEpisode, bounded(pattern, maxRequest, handler)))
	}
	return mux
}

// calls of whom the sandbox was given to.
func (s *server) calls() map[string]http.HandlerFunc {
	return map[string]http.HandlerFunc{
		"GET /alive":               func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) },
		"POST /executions":         s.executions.start,
		"GET /executions/{id}":     s.executions.follow,
		"POST /executions/{id}/in": s.executions.input,
		"DELETE /executions/{id}":  s.executions.end,
		"PUT /files":               s.files.write,
		"PUT /prepared":            s.files.prepare,
		"POST /files":              s.files.read,
		"PUT /tunnel":              s.tunnel.open,
		passing:                    s.tunnel.pass,
	}
}

// passing carries a connection, whose bytes nobody counts beforehand.
const passing = "POST /connections"

// bounded limits a request's body.
func bounded(pattern string, most int64, handler http.HandlerFunc) http.HandlerFunc {
	if pattern == passing {
		return handler
	}
	return func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, most)
		handler(w, r)
	}
}

func (s *server) verify(state tls.ConnectionState) error {
	peer := fingerprint(state.PeerCertificates[0].Raw)
	if s.isOwner(peer) || s.isEpisode(peer) {
		return nil
	}
	return errors.New("this certificate has no part in this sandbox")
}

func (s *server) isOwner(peer string) bool { return peer == s.own }

func (s *server) isEpisode(peer string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.episode != "" && peer == s.episode
}

func (s *server) only(who func(string) bool, handler http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !who(fingerprint(r.TLS.PeerCertificates[0].Raw)) {
			http.Error(w, "not for this certificate", http.StatusForbidden)
			return
		}
		handler(w, r)
	}
}

type claimRequest struct {
	// Fingerprint of the episode's certificate.
	Episode string `json:"episode"`
	TTLMs   int64  `json:"ttlMs"`
}

// claim gives the sandbox to one episode, for ever. Asked again for the same one it says the same.
func (s *server) claim(w http.ResponseWriter, r *http.Request) {
	var request claimRequest
	if err := json.NewDecoder(r.Body).Decode(&request); err != nil || request.Episode == "" || request.TTLMs <= 0 {
		http.Error(w, "episode and ttlMs are needed", http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.episode != "" && s.episode != request.Episode {
		http.Error(w, "it has been claimed", http.StatusConflict)
		return
	}
	if s.episode == "" {
		s.episode = request.Episode
		time.AfterFunc(time.Duration(request.TTLMs)*time.Millisecond, func() { os.Exit(0) })
	}
	w.WriteHeader(http.StatusNoContent)
}

// outsideOnly refuses connections from inside the pod: a command could hold so many that nobody else gets one.
type outsideOnly struct{ net.Listener }

func (l outsideOnly) Accept() (net.Conn, error) {
	for {
		connection, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		remote, _ := connection.RemoteAddr().(*net.TCPAddr)
		local, _ := connection.LocalAddr().(*net.TCPAddr)
		if remote == nil || local == nil || remote.IP.IsLoopback() || remote.IP.Equal(local.IP) {
			connection.Close()
			continue
		}
		if tcp, ok := connection.(*net.TCPConn); ok {
			_ = tcp.SetWriteBuffer(socketBuffer)
		}
		return connection, nil
	}
}

// quiet drops what net/http says of handshakes that end early: the kubelet's probes do nothing else.
type quiet struct{}

func (quiet) Write(text []byte) (int, error) { return len(text), nil }

func writeJSON(w http.ResponseWriter, status int, value any) {
	w.Header().Set("content-type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(value)
}

// refuse says which limit or failure it is; the client makes its own error of it.
func refuse(w http.ResponseWriter, status int, failure, message string) {
	writeJSON(w, status, map[string]string{"failure": failure, "message": message})
}
