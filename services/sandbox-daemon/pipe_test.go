// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestAPreparedStateMayBeCompressedOrNot(t *testing.T) {
	for _, isCompressed := range []bool{false, true} {
		f, folder := workspaceOf(t)
		body := archive(t, &tar.Header{Name: "./a", Typeflag: tar.TypeReg}, &tar.Header{Name: "l", Typeflag: tar.TypeSymlink, Linkname: "a"})
		if isCompressed {
			var small bytes.Buffer
			writer := gzip.NewWriter(&small)
			_, _ = writer.Write(body.Bytes())
			_ = writer.Close()
			body = &small
		}
		answer := httptest.NewRecorder()
		f.prepare(answer, httptest.NewRequest(http.MethodPut, "/prepared", body))
		if target, _ := os.Readlink(filepath.Join(folder, "l")); answer.Code != 204 || target != "a" {
			t.Errorf("compressed %v: %d, link to %q", isCompressed, answer.Code, target)
		}
	}
}

func TestAPipeHasTheCallsOfAnEpisodeAndNoClaim(t *testing.T) {
	f, _ := workspaceOf(t)
	routes := (&server{executions: newExecutions(), files: f}).pipeRoutes()
	for call, want := range map[string]int{"GET /alive": 204, "PUT /files": 204, "POST /claim": 404} {
		method, path, _ := strings.Cut(call, " ")
		answer := httptest.NewRecorder()
		routes.ServeHTTP(answer, httptest.NewRequest(method, path, bytes.NewReader(nil)))
		if answer.Code != want {
			t.Errorf("%s: %d, not %d", call, answer.Code, want)
		}
	}
}

func TestCountersOfBothVersionsOfCgroups(t *testing.T) {
	folder := t.TempDir()
	first, second := filepath.Join(folder, "v2"), filepath.Join(folder, "v1")
	_ = os.WriteFile(second, []byte("oom_kill_disable 0\nunder_oom 0\noom_kill 3\n"), 0o600)
	if got := counter("oom_kill ", first, second); got != 3 {
		t.Errorf("version 1: %d", got)
	}
	_ = os.WriteFile(first, []byte("low 0\nmax 7\n"), 0o600)
	if got := counter("max ", first, second); got != 7 {
		t.Errorf("version 2: %d", got)
	}
}
