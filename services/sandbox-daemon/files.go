// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bufio"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path"
	"strings"
	"syscall"
)

// F1: nothing is read or written outside the workspace, or the folder of the image that its owner names before any command has
// run, whatever links a command has made (os.Root). F2: only regular files are
// given out, none of them followed through a link, and no more than was asked for.

const maxFiles = 100_000

type files struct{ root *os.Root }

// write unpacks a tar archive of regular files.
func (f *files) write(w http.ResponseWriter, r *http.Request) {
	f.answer(w, f.unpack(tar.NewReader(r.Body), false))
}

// prepare unpacks an archive of ours, compressed or not, folders and links too: into the workspace, or into a folder of the image
// that this sandbox may write.
func (f *files) prepare(w http.ResponseWriter, r *http.Request) {
	to := f
	if folder := r.URL.Query().Get("folder"); folder != "" {
		root, err := os.OpenRoot(folder)
		if err != nil {
			f.answer(w, err)
			return
		}
		defer root.Close()
		to = &files{root: root}
	}
	plain, err := decompressed(r.Body)
	if err == nil {
		err = to.unpack(tar.NewReader(plain), true)
	}
	f.answer(w, err)
}

// decompressed tells by the first two bytes: no tar archive of ours begins with gzip's.
func decompressed(body io.Reader) (io.Reader, error) {
	buffered := bufio.NewReaderSize(body, 64<<10)
	if head, _ := buffered.Peek(2); len(head) == 2 && head[0] == 0x1f && head[1] == 0x8b {
		return gzip.NewReader(buffered)
	}
	return buffered, nil
}

func (f *files) answer(w http.ResponseWriter, err error) {
	switch {
	case err == nil:
		w.WriteHeader(http.StatusNoContent)
	case errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT):
		refuse(w, http.StatusInsufficientStorage, "DISK", err.Error())
	default:
		refuse(w, http.StatusConflict, "CONFLICT", err.Error())
	}
}

func (f *files) unpack(archive *tar.Reader, isOurs bool) error {
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		name := path.Clean(strings.TrimPrefix(header.Name, "./"))
		if err := f.unpackOne(name, header, archive, isOurs); err != nil {
			return err
		}
	}
}

func (f *files) unpackOne(name string, header *tar.Header, content io.Reader, isOurs bool) error {
	switch {
	case header.Typeflag == tar.TypeReg:
		return f.writeFile(name, header.FileInfo().Mode().Perm()|0o600, content)
	case isOurs && header.Typeflag == tar.TypeDir:
		return f.root.MkdirAll(name, 0o755)
	case isOurs && header.Typeflag == tar.TypeSymlink:
		return f.root.Symlink(header.Linkname, name)
	case isOurs && header.Typeflag == tar.TypeLink:
		return f.root.Link(path.Clean(strings.TrimPrefix(header.Linkname, "./")), name)
	}
	return nil
}

// writeFile replaces what has the name, unless it is a folder. Most files are new, in a folder that is there.
func (f *files) writeFile(name string, mode fs.FileMode, content io.Reader) error {
	to, err := f.create(name, mode)
	if errors.Is(err, fs.ErrNotExist) {
		if err := f.root.MkdirAll(path.Dir(name), 0o755); err != nil {
			return err
		}
		to, err = f.create(name, mode)
	}
	if errors.Is(err, fs.ErrExist) {
		if info, err := f.root.Lstat(name); err == nil && !info.IsDir() {
			if err := f.root.Remove(name); err != nil {
				return err
			}
		}
		to, err = f.create(name, mode)
	}
	if err != nil {
		return err
	}
	_, err = io.Copy(to, content)
	return errors.Join(err, to.Close())
}

func (f *files) create(name string, mode fs.FileMode) (*os.File, error) {
	return f.root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
}

type readRequest struct {
	Paths    []string `json:"paths"`
	MaxBytes int64    `json:"maxBytes"`
}

type found struct {
	name string
	info fs.FileInfo
}

var errTooMuch = errors.New("the files are more than was asked for")

// read gives regular files, and those of folders, as a tar archive.
func (f *files) read(w http.ResponseWriter, r *http.Request) {
	var request readRequest
	if err := json.NewDecoder(r.Body).Decode(&request); err != nil {
		refuse(w, http.StatusBadRequest, "INVALID", err.Error())
		return
	}
	all, err := f.list(request)
	if err != nil {
		refuse(w, http.StatusRequestEntityTooLarge, "OUTPUT", err.Error())
		return
	}
	w.Header().Set("content-type", "application/x-tar")
	archive := tar.NewWriter(w)
	for _, each := range all {
		if f.pack(archive, each) != nil {
			return // The archive ends within a file, which its reader sees.
		}
	}
	_ = archive.Close()
}

func (f *files) list(request readRequest) ([]found, error) {
	var all []found
	total := int64(0)
	for _, each := range request.Paths {
		err := fs.WalkDir(f.root.FS(), path.Clean(each), func(name string, entry fs.DirEntry, err error) error {
			if err != nil || !entry.Type().IsRegular() {
				return nil // Gone meanwhile, a folder, or no file: left out.
			}
			info, err := entry.Info()
			if err != nil || !info.Mode().IsRegular() {
				return nil
			}
			total += info.Size()
			if total > request.MaxBytes || len(all) >= maxFiles {
				return errTooMuch
			}
			all = append(all, found{name, info})
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

func (f *files) pack(archive *tar.Writer, each found) error {
	from, err := f.root.OpenFile(each.name, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil // It has gone, or is a link by now.
	}
	defer from.Close()
	info, err := from.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return nil
	}
	header := &tar.Header{Name: each.name, Mode: int64(info.Mode().Perm()), Size: each.info.Size(), Format: tar.FormatGNU}
	if err := archive.WriteHeader(header); err != nil {
		return err
	}
	written, err := io.CopyN(archive, from, each.info.Size())
	if errors.Is(err, io.EOF) { // It was made shorter meanwhile.
		_, err = io.CopyN(archive, zeros{}, each.info.Size()-written)
	}
	return err
}

type zeros struct{}

func (zeros) Read(into []byte) (int, error) {
	clear(into)
	return len(into), nil
}
