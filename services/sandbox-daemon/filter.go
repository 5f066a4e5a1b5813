// SPDX-License-Identifier: Apache-2.0

package main

import (
	"runtime"
	"syscall"
	"unsafe"
)

// A command has the daemon's user, and the kernel lets a user change limits and priorities of all that it runs: a command could take
// the daemon's open files away, and so lose a sandbox that is about to judge it. Calls of these kinds may name their caller only.

const (
	prSetNoNewPrivs = 38
	prSetSeccomp    = 22
	modeFilter      = 2

	allow = 0x7fff0000
	deny  = 0x00050000 | uint32(syscall.EPERM)

	offsetNumber = 0
	offsetArch   = 4
	offsetFirst  = 16
	offsetSecond = 24
)

// ownCallsOnly is for the thread that becomes the command.
func ownCallsOnly() error {
	runtime.LockOSThread()
	program := filterProgram()
	if err := prctl(prSetNoNewPrivs, 1); err != nil {
		return err
	}
	filter := syscall.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	_, _, errno := syscall.RawSyscall(syscall.SYS_PRCTL, prSetSeccomp, modeFilter, uintptr(unsafe.Pointer(&filter)))
	runtime.KeepAlive(program)
	if errno != 0 {
		return errno
	}
	return nil
}

// filterProgram denies what it does not know: calls of another architecture have other numbers.
func filterProgram() []syscall.SockFilter {
	load := func(offset uint32) syscall.SockFilter {
		return syscall.SockFilter{Code: syscall.BPF_LD | syscall.BPF_W | syscall.BPF_ABS, K: offset}
	}
	jump := func(kind uint16, value uint32, yes, no uint8) syscall.SockFilter {
		return syscall.SockFilter{Code: syscall.BPF_JMP | kind | syscall.BPF_K, K: value, Jt: yes, Jf: no}
	}
	give := func(what uint32) syscall.SockFilter {
		return syscall.SockFilter{Code: syscall.BPF_RET | syscall.BPF_K, K: what}
	}
	program := []syscall.SockFilter{
		load(offsetArch), jump(syscall.BPF_JEQ, auditArch, 1, 0), give(deny),
		load(offsetNumber), jump(syscall.BPF_JGE, firstForeign, 0, 1), give(deny),
	}
	for _, number := range callsByPid {
		program = append(program,
			jump(syscall.BPF_JEQ, number, 0, 4),
			load(offsetFirst), jump(syscall.BPF_JEQ, 0, 0, 1), give(allow), give(deny))
	}
	return append(program,
		jump(syscall.BPF_JEQ, setPriority, 0, 6),
		load(offsetFirst), jump(syscall.BPF_JEQ, 0, 0, 3),
		load(offsetSecond), jump(syscall.BPF_JEQ, 0, 0, 1), give(allow), give(deny),
		give(allow))
}
