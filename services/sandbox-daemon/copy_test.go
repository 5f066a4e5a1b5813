// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func must0(t *testing.T, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestCopyFoldersKeepsLinksModesAndTimes(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	must0(t,
		os.MkdirAll(filepath.Join(from, "deep/empty"), 0o755),
		os.WriteFile(filepath.Join(from, "deep/run.sh"), []byte("#!/bin/sh"), 0o555),
		os.Link(filepath.Join(from, "deep/run.sh"), filepath.Join(from, "same.sh")),
		os.Symlink("deep/run.sh", filepath.Join(from, "link")),
		os.Symlink("/nowhere", filepath.Join(from, "dangling")),
		syscall.Mkfifo(filepath.Join(from, "pipe"), 0o600),
	)
	must0(t, copyFolders([]string{from, to}))
	first, err := os.Stat(filepath.Join(to, "deep/run.sh"))
	must0(t, err)
	second, err := os.Stat(filepath.Join(to, "same.sh"))
	must0(t, err)
	if !os.SameFile(first, second) || first.Mode().Perm() != 0o755 {
		t.Errorf("two names of one file: %v, mode %v", os.SameFile(first, second), first.Mode())
	}
	original, err := os.Stat(filepath.Join(from, "deep/run.sh"))
	must0(t, err)
	if !original.ModTime().Equal(first.ModTime()) {
		t.Errorf("its time is %v, not %v", first.ModTime(), original.ModTime())
	}
	for name, want := range map[string]string{"link": "deep/run.sh", "dangling": "/nowhere"} {
		if link, err := os.Readlink(filepath.Join(to, name)); err != nil || link != want {
			t.Errorf("%s leads to %q, %v", name, link, err)
		}
	}
	if info, err := os.Stat(filepath.Join(to, "deep/empty")); err != nil || !info.IsDir() {
		t.Errorf("an empty folder: %v", err)
	}
	if _, err := os.Lstat(filepath.Join(to, "pipe")); !os.IsNotExist(err) {
		t.Errorf("a pipe was copied: %v", err)
	}
}

func TestCopyFoldersNamesWhatIsMissing(t *testing.T) {
	err := copyFolders([]string{"/nowhere/at/all", t.TempDir()})
	if err == nil || !strings.Contains(err.Error(), "imageFolders: ") || !strings.Contains(err.Error(), "/nowhere/at/all") {
		t.Errorf("got %v", err)
	}
	if copyFolders([]string{"/one"}) == nil || copyFolders(nil) == nil {
		t.Error("half a pair was taken")
	}
}
