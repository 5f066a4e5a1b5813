// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func archive(t *testing.T, headers ...*tar.Header) *bytes.Buffer {
	t.Helper()
	var into bytes.Buffer
	writer := tar.NewWriter(&into)
	for _, header := range headers {
		header.Mode = 0o644
		if header.Typeflag == tar.TypeReg {
			header.Size = 1
		}
		if err := writer.WriteHeader(header); err != nil {
			t.Fatal(err)
		}
		if header.Size > 0 {
			_, _ = writer.Write([]byte("x"))
		}
	}
	_ = writer.Close()
	return &into
}

func workspaceOf(t *testing.T) (*files, string) {
	t.Helper()
	folder := t.TempDir()
	root, err := os.OpenRoot(filepath.Join(folder))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	return &files{root}, folder
}

func put(f *files, body *bytes.Buffer) int {
	answer := httptest.NewRecorder()
	f.write(answer, httptest.NewRequest(http.MethodPut, "/files", body))
	return answer.Code
}

func TestNothingIsWrittenOutside(t *testing.T) {
	f, folder := workspaceOf(t)
	outside := t.TempDir()
	if err := os.Symlink(outside, filepath.Join(folder, "link")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"../x", "/x", "a/../../x", "link/x"} {
		if code := put(f, archive(t, &tar.Header{Name: name, Typeflag: tar.TypeReg})); code != http.StatusConflict {
			t.Errorf("%s: %d", name, code)
		}
	}
	if left, _ := os.ReadDir(outside); len(left) > 0 {
		t.Errorf("something was written outside: %v", left)
	}
}

func TestAFileThatIsALinkIsReplaced(t *testing.T) {
	f, folder := workspaceOf(t)
	target := filepath.Join(t.TempDir(), "target")
	_ = os.Symlink(target, filepath.Join(folder, "file"))
	if code := put(f, archive(t, &tar.Header{Name: "file", Typeflag: tar.TypeReg})); code != http.StatusNoContent {
		t.Fatal(code)
	}
	if _, err := os.Lstat(target); err == nil {
		t.Error("the link was followed")
	}
}

func TestOnlyOurOwnArchivesMayHoldLinks(t *testing.T) {
	f, folder := workspaceOf(t)
	link := func() *bytes.Buffer {
		return archive(t, &tar.Header{Name: "link", Linkname: "/etc/passwd", Typeflag: tar.TypeSymlink})
	}
	put(f, link())
	if _, err := os.Lstat(filepath.Join(folder, "link")); err == nil {
		t.Error("a link was made")
	}
	if err := f.unpack(tar.NewReader(link()), true); err != nil {
		t.Error(err)
	}
}

func TestReadingIsBoundedAndFollowsNoLink(t *testing.T) {
	f, folder := workspaceOf(t)
	_ = os.Symlink("/etc/passwd", filepath.Join(folder, "link"))
	_ = os.Truncate(filepath.Join(folder, "none"), 0)
	_ = os.WriteFile(filepath.Join(folder, "big"), bytes.Repeat([]byte("x"), 2000), 0o644)
	ask := func(body string) *httptest.ResponseRecorder {
		answer := httptest.NewRecorder()
		f.read(answer, httptest.NewRequest(http.MethodPost, "/files", strings.NewReader(body)))
		return answer
	}
	if code := ask(`{"paths":["big"],"maxBytes":1000}`).Code; code != http.StatusRequestEntityTooLarge {
		t.Error(code)
	}
	reader := tar.NewReader(ask(`{"paths":["link","big","missing"],"maxBytes":10000}`).Body)
	header, err := reader.Next()
	if err != nil || header.Name != "big" || header.Size != 2000 {
		t.Errorf("%v %v", header, err)
	}
	if _, err := reader.Next(); err == nil {
		t.Error("there is more than the one file")
	}
}
