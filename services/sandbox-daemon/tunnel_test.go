// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

func freePort(t *testing.T) int {
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port
}

func putTunnel(t *tunnel, query string) int {
	answer := httptest.NewRecorder()
	t.open(answer, httptest.NewRequest(http.MethodPut, "/tunnel?port="+query, nil))
	return answer.Code
}

// data reads frames until the command sends no more.
func data(t *testing.T, from io.Reader) string {
	var all bytes.Buffer
	for head := make([]byte, 13); ; {
		if _, err := io.ReadFull(from, head); err != nil {
			t.Fatal(err)
		}
		if head[0] == frameEnd {
			return all.String()
		}
		if _, err := io.CopyN(&all, from, int64(binary.BigEndian.Uint32(head[9:]))); err != nil {
			t.Fatal(err)
		}
	}
}

func TestATunnelCarriesBothDirectionsToTheirEnds(t *testing.T) {
	tunnel := newTunnel()
	port := freePort(t)
	for query, want := range map[string]int{"x": 400, "0": 400, fmt.Sprint(port): 204} {
		if got := putTunnel(tunnel, query); got != want {
			t.Errorf("port %s: %d, not %d", query, got, want)
		}
	}
	if again, other := putTunnel(tunnel, fmt.Sprint(port)), putTunnel(tunnel, "9"); again != 204 || other != 409 {
		t.Errorf("again %d, another %d", again, other)
	}
	server := httptest.NewServer(http.HandlerFunc(tunnel.pass))
	defer server.Close()
	body, answers := io.Pipe()
	passed := make(chan *http.Response, 1)
	go func() {
		response, err := http.Post(server.URL, "", body)
		if err != nil {
			t.Error(err)
		}
		passed <- response
	}()
	connection, err := net.Dial("tcp4", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	_, _ = io.WriteString(connection, "question")
	_ = connection.(*net.TCPConn).CloseWrite()
	response := <-passed
	defer response.Body.Close()
	if got := data(t, response.Body); got != "question" {
		t.Errorf("the caller got %q", got)
	}
	go func() {
		_, _ = io.WriteString(answers, "answer")
		answers.Close()
	}()
	_ = connection.SetDeadline(time.Now().Add(10 * time.Second))
	if got, err := io.ReadAll(connection); string(got) != "answer" || err != nil {
		t.Errorf("the command got %q, %v", got, err)
	}
}

func TestACallerThatGoesEndsTheConnection(t *testing.T) {
	tunnel := newTunnel()
	port := freePort(t)
	putTunnel(tunnel, fmt.Sprint(port))
	server := httptest.NewServer(http.HandlerFunc(tunnel.pass))
	defer server.Close()
	body, answers := io.Pipe()
	defer answers.Close()
	request, _ := http.NewRequest(http.MethodPost, server.URL, body)
	client := &http.Client{Transport: &http.Transport{}}
	passed := make(chan *http.Response, 1)
	go func() {
		response, err := client.Do(request)
		if err != nil {
			t.Error(err)
		}
		passed <- response
	}()
	connection, err := net.Dial("tcp4", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	_, _ = io.WriteString(connection, "x")
	response := <-passed
	response.Body.Close()
	_ = connection.SetDeadline(time.Now().Add(10 * time.Second))
	if _, err := connection.Read(make([]byte, 1)); err == nil {
		t.Error("it is open still")
	} else if timeout, ok := err.(net.Error); ok && timeout.Timeout() {
		t.Error("it was not ended")
	}
}
