// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

const (
	// identityVariable is set for the init container only: the main container's environment can be read in many ways.
	identityVariable = "WHETSTONE_SANDBOX_IDENTITY"
	identityFile     = "/whetstone/identity/identity.json"
)

// identity is the pod's own pair of key and certificate, PEM. The controller, which made it, shows the same certificate.
type identity struct {
	Key         string `json:"key"`
	Certificate string `json:"certificate"`
}

// install is the init container: it brings the program and the pod's identity to where the main container finds them.
func install(args []string) error {
	if len(args) != 1 {
		return errors.New(usage)
	}
	if err := copyProgram(filepath.Join(args[0], "sandboxd")); err != nil {
		return err
	}
	text := os.Getenv(identityVariable)
	if text == "" {
		return fmt.Errorf("%s is not set", identityVariable)
	}
	return os.WriteFile(identityFile, []byte(text), 0o600)
}

func copyProgram(target string) error {
	from, err := os.Open("/proc/self/exe")
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := os.OpenFile(target, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o555)
	if err != nil {
		return err
	}
	if _, err := io.Copy(to, from); err != nil {
		return err
	}
	return to.Close()
}

// takeIdentity reads the identity and removes it, before any command can run.
func takeIdentity(path string) (tls.Certificate, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return tls.Certificate{}, err
	}
	if err := os.Remove(path); err != nil {
		return tls.Certificate{}, err
	}
	var own identity
	if err := json.Unmarshal(text, &own); err != nil {
		return tls.Certificate{}, fmt.Errorf("the identity is no JSON: %w", err)
	}
	return tls.X509KeyPair([]byte(own.Certificate), []byte(own.Key))
}

// fingerprint names a certificate.
func fingerprint(der []byte) string {
	sum := sha256.Sum256(der)
	return hex.EncodeToString(sum[:])
}
