// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"strconv"
	"syscall"
)

const (
	prSetDumpable       = 4
	prSetChildSubreaper = 36
)

func prctl(option, value uintptr) error {
	if _, _, errno := syscall.RawSyscall6(syscall.SYS_PRCTL, option, value, 0, 0, 0, 0); errno != 0 {
		return errno
	}
	return nil
}

type process struct {
	pid, parent int
	isZombie    bool
}

// processes of this pod, or of this machine where there is no pod.
func processes() []process {
	folder, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer folder.Close()
	names, _ := folder.Readdirnames(-1)
	found := make([]process, 0, len(names))
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if each, ok := readStat(pid); ok {
			found = append(found, each)
		}
	}
	return found
}

func readStat(pid int) (process, bool) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return process{}, false
	}
	// The name may hold anything, so fields are counted from its end.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 2 {
		return process{}, false
	}
	parent, _ := strconv.Atoi(string(fields[1]))
	return process{pid, parent, fields[0][0] == 'Z'}, true
}

// below gives all processes that descend from one, itself not included.
func below(root int, all []process) []process {
	children := map[int][]process{}
	for _, each := range all {
		children[each.parent] = append(children[each.parent], each)
	}
	var found []process
	for queue := []int{root}; len(queue) > 0; queue = queue[1:] {
		found = append(found, children[queue[0]]...)
		for _, each := range children[queue[0]] {
			queue = append(queue, each.pid)
		}
	}
	return found
}

func killAll(all []process) {
	for _, each := range all {
		if !each.isZombie {
			_ = syscall.Kill(each.pid, syscall.SIGKILL)
		}
	}
}
