// SPDX-License-Identifier: Apache-2.0

// Program sandboxd runs in the pod or container of a sandbox: it starts commands, passes their output and files, and answers only
// to whom the sandbox was given. It needs nothing of the image that it runs in.
package main

import (
	"fmt"
	"os"
)

const usage = "usage: sandboxd install FOLDER | copy-folders FROM TO... | serve | serve-pipe TTL_MS | keep SETTINGS COMMAND... | enter SETTINGS COMMAND..."

func main() {
	if len(os.Args) < 2 {
		fail(2, usage)
	}
	switch os.Args[1] {
	case "install":
		must(install(os.Args[2:]))
	case "copy-folders":
		must(copyFolders(os.Args[2:]))
	case "serve":
		must(serve())
	case "serve-pipe":
		must(servePipe(os.Args[2:]))
	case "keep":
		os.Exit(keep(os.Args[2:]))
	case "enter":
		enter(os.Args[2:])
	default:
		fail(2, usage)
	}
}

func must(err error) {
	if err != nil {
		fail(1, err.Error())
	}
}

func fail(code int, message string) {
	fmt.Fprintln(os.Stderr, "sandboxd:", message)
	os.Exit(code)
}
