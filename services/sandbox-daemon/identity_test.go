// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func pairOf(t *testing.T) identity {
	t.Helper()
	key, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, _ := x509.MarshalECPrivateKey(key)
	text := func(kind string, bytes []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: bytes}))
	}
	return identity{text("EC PRIVATE KEY", keyDER), text("CERTIFICATE", der)}
}

func (own identity) pair() tls.Certificate {
	pair, _ := tls.X509KeyPair([]byte(own.Certificate), []byte(own.Key))
	return pair
}

func TestAnIdentityIsReadOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "identity.json")
	text, _ := json.Marshal(pairOf(t))
	_ = os.WriteFile(path, text, 0o600)
	if _, err := takeIdentity(path); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("the file is still there for commands to read")
	}
}

func TestOnlyThePodsAndTheEpisodesCertificatesAreTaken(t *testing.T) {
	own, episode, other := pairOf(t), pairOf(t).pair(), pairOf(t).pair()
	s := &server{own: fingerprint(own.pair().Certificate[0]), executions: newExecutions()}
	http := s.httpServer(own.pair())
	listener, _ := net.Listen("tcp", "127.0.0.1:0")
	go func() { _ = http.ServeTLS(listener, "", "") }()
	defer http.Close()
	url := "https://" + listener.Addr().String()
	claim := `{"episode":"` + fingerprint(episode.Certificate[0]) + `","ttlMs":60000}`
	another := `{"episode":"` + fingerprint(other.Certificate[0]) + `","ttlMs":60000}`
	for _, step := range []struct {
		as           tls.Certificate
		method, path string
		body         string
		want         int
	}{
		{episode, "GET", "/alive", "", 0},
		{own.pair(), "GET", "/alive", "", 403},
		{own.pair(), "POST", "/claim", claim, 204},
		{own.pair(), "POST", "/claim", claim, 204},
		{own.pair(), "POST", "/claim", another, 409},
		{episode, "GET", "/alive", "", 204},
		{episode, "POST", "/claim", another, 403},
		{own.pair(), "GET", "/alive", "", 403},
		{other, "GET", "/alive", "", 0},
	} {
		if got := ask(step.as, step.method, url+step.path, step.body); got != step.want {
			t.Errorf("%s %s: %d, not %d", step.method, step.path, got, step.want)
		}
	}
}

// ask gives 0 where the handshake fails.
func ask(as tls.Certificate, method, url, body string) int {
	config := &tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{as}}
	client := http.Client{Transport: &http.Transport{TLSClientConfig: config}, Timeout: 5 * time.Second}
	request, _ := http.NewRequest(method, url, strings.NewReader(body))
	answer, err := client.Do(request)
	if err != nil {
		return 0
	}
	defer answer.Body.Close()
	return answer.StatusCode
}
