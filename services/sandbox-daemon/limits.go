// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"strconv"
	"strings"
	"syscall"
)

// counters of this pod's cgroup, version 1 or 2. Where they cannot be read they stay zero, and an end by memory has no name.
type counters struct{ memoryKills int }

func countersNow() counters {
	for _, path := range []string{"/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control"} {
		if text, err := os.ReadFile(path); err == nil {
			return counters{memoryKills: numberAfter(string(text), "oom_kill ")}
		}
	}
	return counters{}
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
