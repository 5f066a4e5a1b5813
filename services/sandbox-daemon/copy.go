// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// copyFolders is an init container with the sandbox's image: each pair is a folder of that image, and where its copy is to lie.
func copyFolders(args []string) error {
	if len(args) == 0 || len(args)%2 != 0 {
		return errors.New(usage)
	}
	for ; len(args) > 0; args = args[2:] {
		if err := copyFolder(args[0], args[1]); err != nil {
			return fmt.Errorf("imageFolders: %w", err)
		}
	}
	return nil
}

// copyFolder copies folders, regular files and links. What is neither (a socket, a device) is left out; what cannot be read is an
// error, since an image that lacks a file is another image.
func copyFolder(from, to string) error {
	// Files that have several names, by their number.
	copied := map[uint64]string{}
	return filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		return copyEntry(path, filepath.Join(to, relative), entry, copied)
	})
}

func copyEntry(path, target string, entry fs.DirEntry, copied map[uint64]string) error {
	switch {
	case entry.IsDir():
		return os.MkdirAll(target, 0o755)
	case entry.Type()&fs.ModeSymlink != 0:
		link, err := os.Readlink(path)
		if err != nil {
			return err
		}
		return os.Symlink(link, target)
	case !entry.Type().IsRegular():
		return nil
	}
	info, err := entry.Info()
	if err != nil {
		return err
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok && stat.Nlink > 1 {
		if first, seen := copied[stat.Ino]; seen {
			return os.Link(first, target)
		}
		copied[stat.Ino] = target
	}
	return copyFile(path, target, info)
}

func copyFile(path, target string, info fs.FileInfo) error {
	from, err := os.Open(path)
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := os.OpenFile(target, os.O_CREATE|os.O_EXCL|os.O_WRONLY, info.Mode().Perm()|0o600)
	if err != nil {
		return err
	}
	if _, err := io.Copy(to, from); err != nil {
		return errors.Join(err, to.Close())
	}
	// Tools such as git and make tell by the time whether a file has changed.
	return errors.Join(to.Close(), os.Chtimes(target, info.ModTime(), info.ModTime()))
}
