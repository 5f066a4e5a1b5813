// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"syscall"
	"time"
	"unsafe"
)

// settings of a command, on the command line of those that keep it: nothing in them is secret.
type settings struct {
	Folder    string `json:"folder"`
	OpenFiles uint64 `json:"openFiles"`
	// Of each process, bytes. The pod's own limit is for all together.
	Memory uint64 `json:"memory"`
}

// begunFile is the descriptor on which the keeper says that the command's own process is there.
const begunFile = 3

// keep is the parent of one command. What the command leaves behind becomes its child, so that nothing outlives the command.
func keep(args []string) int {
	if len(args) < 2 {
		return 125
	}
	signal.Ignore(syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT)
	if prctl(prSetDumpable, 0) != nil || prctl(prSetChildSubreaper, 1) != nil {
		return 125
	}
	syscall.CloseOnExec(begunFile)
	command := exec.Command("/proc/self/exe", append([]string{"enter"}, args...)...)
	command.Stdin, command.Stdout, command.Stderr = os.Stdin, os.Stdout, os.Stderr
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := command.Start(); err != nil {
		return 125
	}
	_, _ = syscall.Write(begunFile, []byte("begun"))
	_ = command.Wait()
	endChildren()
	return exitCode(command.ProcessState)
}

// endChildren returns when there are none left.
func endChildren() {
	for {
		killAll(below(os.Getpid(), processes()))
		for {
			pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
			if errors.Is(err, syscall.ECHILD) {
				return
			}
			if err != nil || pid == 0 {
				break
			}
		}
		time.Sleep(time.Millisecond)
	}
}

func exitCode(state *os.ProcessState) int {
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return state.ExitCode()
}

// enter becomes the command, within its limits.
func enter(args []string) {
	var wanted settings
	if err := json.Unmarshal([]byte(args[0]), &wanted); err != nil {
		fail(125, err.Error())
	}
	if err := os.Chdir(wanted.Folder); err != nil {
		fail(126, err.Error())
	}
	program, err := exec.LookPath(args[1])
	if err != nil {
		fail(127, args[1]+": not found")
	}
	// Whoever is in need of memory ends commands first, not what keeps them.
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte(strconv.Itoa(1000)), 0)
	if err := ownCallsOnly(); err != nil {
		fail(126, "no filter of system calls: "+err.Error())
	}
	limit(syscall.RLIMIT_CORE, 0)
	limit(syscall.RLIMIT_NOFILE, wanted.OpenFiles)
	become(program, args[1:], wanted.Memory)
}

var cannotStart = []byte("sandboxd: the program could not be started\n")

// become limits the memory and starts the program with nothing between them: what is left may be too little for Go to go on.
func become(program string, args []string, memory uint64) {
	path, err1 := syscall.BytePtrFromString(program)
	argv, err2 := syscall.SlicePtrFromStrings(args)
	environment, err3 := syscall.SlicePtrFromStrings(os.Environ())
	if err := errors.Join(err1, err2, err3); err != nil {
		fail(126, err.Error())
	}
	most := syscall.Rlimit{Cur: memory, Max: memory}
	_, _, errno := syscall.RawSyscall6(syscall.SYS_PRLIMIT64, 0, syscall.RLIMIT_AS, uintptr(unsafe.Pointer(&most)), 0, 0, 0)
	if errno != 0 {
		fail(125, errno.Error())
	}
	_, _, _ = syscall.RawSyscall(syscall.SYS_EXECVE, uintptr(unsafe.Pointer(path)), uintptr(unsafe.Pointer(&argv[0])),
		uintptr(unsafe.Pointer(&environment[0])))
	_, _, _ = syscall.RawSyscall(syscall.SYS_WRITE, 2, uintptr(unsafe.Pointer(&cannotStart[0])), uintptr(len(cannotStart)))
	_, _, _ = syscall.RawSyscall(syscall.SYS_EXIT_GROUP, 126, 0, 0)
}

func limit(what int, value uint64) {
	if err := syscall.Setrlimit(what, &syscall.Rlimit{Cur: value, Max: value}); err != nil {
		fail(125, err.Error())
	}
}
