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
	environment, argv := os.Environ(), args[1:]
	limit(syscall.RLIMIT_CORE, 0)
	limit(syscall.RLIMIT_NOFILE, wanted.OpenFiles)
	limit(syscall.RLIMIT_AS, wanted.Memory)
	if err := ownCallsOnly(); err != nil {
		fail(126, "no filter of system calls: "+err.Error())
	}
	fail(126, syscall.Exec(program, argv, environment).Error())
}

func limit(what int, value uint64) {
	if err := syscall.Setrlimit(what, &syscall.Rlimit{Cur: value, Max: value}); err != nil {
		fail(125, err.Error())
	}
}
