// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// Streams of an execution, as they stand in a frame.
const (
	streamOut = 1
	streamErr = 2
)

const endWithin = 5 * time.Second

type startRequest struct {
	ID        string            `json:"id"`
	Command   []string          `json:"command"`
	Folder    string            `json:"folder"`
	Env       map[string]string `json:"env"`
	Stdin     []byte            `json:"stdin"`
	EndsInput bool              `json:"endsInput"`
	// The command is killed after this time, and after so many bytes of output.
	DeadlineMs    int64  `json:"deadlineMs"`
	MaxTotalBytes int64  `json:"maxTotalBytes"`
	Processes     int    `json:"processes"`
	OpenFiles     uint64 `json:"openFiles"`
	MemoryBytes   uint64 `json:"memoryBytes"`
}

type result struct {
	ExitCode int `json:"exitCode"`
	// The limit that it ran into: DEADLINE, OUTPUT, PROCESSES, MEMORY, DISK, or what its caller killed it for.
	Failure string `json:"failure"`
}

type execution struct {
	request  startRequest
	output   *output
	command  *exec.Cmd
	input    io.WriteCloser
	mu       sync.Mutex
	received int64
	killed   bool
	reason   string
	done     chan struct{}
	result   result
}

// run starts the command. The lock of all executions is held: whoever has the first process as parent is known by then.
func run(request startRequest) (*execution, error) {
	e := &execution{request: request, output: newOutput(), done: make(chan struct{})}
	command := exec.Command("/proc/self/exe", append([]string{"keep", settingsOf(request)}, request.Command...)...)
	command.Env = environment(request.Env)
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	begunOut, begunIn, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	command.ExtraFiles = []*os.File{begunIn}
	input, err1 := command.StdinPipe()
	out, err2 := command.StdoutPipe()
	errs, err3 := command.StderrPipe()
	err = errors.Join(err1, err2, err3)
	before := countersNow()
	if err == nil {
		err = command.Start()
	}
	begunIn.Close()
	if err != nil {
		begunOut.Close()
		return nil, err
	}
	e.command, e.input = command, input
	var readers sync.WaitGroup
	readers.Add(2)
	go e.read(streamOut, out, &readers)
	go e.read(streamErr, errs, &readers)
	go e.feed()
	go e.finish(&readers, begunOut, before)
	return e, nil
}

func (e *execution) read(stream byte, from io.Reader, readers *sync.WaitGroup) {
	defer readers.Done()
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 && e.output.add(stream, append([]byte(nil), buffer[:n]...)) > e.request.MaxTotalBytes {
			e.kill("OUTPUT")
		}
		if err != nil {
			return
		}
	}
}

func (e *execution) feed() {
	if len(e.request.Stdin) > 0 {
		e.write(0, e.request.Stdin)
	}
	if e.request.EndsInput {
		e.input.Close()
	}
}

// write passes input on. Bytes that were passed on before are left out, so that it may be asked again.
func (e *execution) write(at int64, data []byte) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if known := e.received - at; known > 0 {
		data = data[min(known, int64(len(data))):]
	}
	n, _ := e.input.Write(data) // It ended before it read all.
	e.received += int64(n)
}

func (e *execution) finish(readers *sync.WaitGroup, begun *os.File, before counters) {
	deadline := time.AfterFunc(time.Duration(e.request.DeadlineMs)*time.Millisecond, func() { e.kill("DEADLINE") })
	word, _ := io.ReadAll(begun)
	begun.Close()
	// The keeper ends when all that the command started has ended; a command may end its keeper, and what is left then is ended by
	// `watch`. Either way the pipes have no writer any longer.
	readers.Wait()
	_ = e.command.Wait()
	deadline.Stop()
	e.result = e.judge(len(word) > 0, before)
	e.output.end()
	close(e.done)
}

func (e *execution) judge(hasBegun bool, before counters) result {
	code := exitCode(e.command.ProcessState)
	killed, reason := e.fate()
	if killed || reason != "" {
		return result{128 + int(syscall.SIGKILL), reason}
	}
	if code == 0 && hasBegun {
		return result{0, ""}
	}
	now := countersNow()
	if now.memoryKills > before.memoryKills {
		return result{code, "MEMORY"}
	}
	if now.refusedForks > before.refusedForks {
		return result{code, "PROCESSES"}
	}
	if isFull(workspace) {
		return result{code, "DISK"}
	}
	if !hasBegun && code == 125 {
		return result{code, "PROCESSES"} // Its keeper could not start it: the pod has no process or memory left.
	}
	return result{code, ""}
}

func (e *execution) fate() (bool, string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.killed, e.reason
}

// kill ends the command with all that it started. The first reason stands.
func (e *execution) kill(reason string) {
	select {
	case <-e.done:
		return
	default:
	}
	go func() { // The lock may be held by a write that waits for the command.
		e.input.Close()
		e.mu.Lock()
		if !e.killed {
			e.killed, e.reason = true, reason
		}
		e.mu.Unlock()
		e.output.giveUp()
		e.endProcesses()
	}()
}

// endProcesses ends the tree, its keeper last: else what is left would have another parent before it is found.
func (e *execution) endProcesses() {
	root := e.command.Process.Pid
	for until := time.Now().Add(endWithin); time.Now().Before(until); time.Sleep(time.Millisecond) {
		select {
		case <-e.done:
			return
		default:
			killAll(below(root, processes()))
		}
	}
	_ = e.command.Process.Kill()
}

func settingsOf(request startRequest) string {
	return `{"folder":` + strconv.Quote(folderOf(request.Folder)) +
		`,"openFiles":` + strconv.FormatUint(request.OpenFiles, 10) +
		`,"memory":` + strconv.FormatUint(request.MemoryBytes, 10) + `}`
}

func folderOf(folder string) string {
	if folder == "" {
		return workspace
	}
	return workspace + "/" + folder
}

func environment(more map[string]string) []string {
	all := map[string]string{
		"PATH":                    "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"HOME":                    workspace,
		"TMPDIR":                  "/tmp",
		"LANG":                    "C.UTF-8",
		"PYTHONDONTWRITEBYTECODE": "1",
	}
	for name, value := range more {
		all[name] = value
	}
	lines := make([]string, 0, len(all))
	for name, value := range all {
		lines = append(lines, name+"="+value)
	}
	return lines
}
