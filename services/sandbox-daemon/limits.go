// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"strconv"
	"strings"
	"syscall"
)

// counters of this pod's or container's cgroup, version 1 or 2. Where they cannot be read they stay zero, and an end by memory, or
// for want of a process, has no name.
type counters struct{ memoryKills, refusedForks int }

func countersNow() counters {
	return counters{
		memoryKills:  counter("oom_kill ", "/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control"),
		refusedForks: counter("max ", "/sys/fs/cgroup/pids.events", "/sys/fs/cgroup/pids/pids.events"),
	}
}

// counter reads the first of the files that is there.
func counter(name string, paths ...string) int {
	for _, path := range paths {
		if text, err := os.ReadFile(path); err == nil {
			return numberAfter(string(text), name)
		}
	}
	return 0
}

func numberAfter(text, name string) int {
	for _, line := range strings.Split(text, "\n") {
		if rest, ok := strings.CutPrefix(line, name); ok {
			number, _ := strconv.Atoi(strings.TrimSpace(rest))
			return number
		}
	}
	return 0
}

// isFull: nothing more can be written there.
func isFull(folder string) bool {
	var stat syscall.Statfs_t
	if syscall.Statfs(folder, &stat) != nil || stat.Blocks == 0 {
		return false
	}
	return stat.Bavail == 0 || (stat.Files > 0 && stat.Ffree == 0)
}
