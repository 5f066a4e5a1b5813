// SPDX-License-Identifier: Apache-2.0

/** Of one answer, bytes of its JSON. */
export const MAX_ANSWER_BYTES = 2 * 1024 * 1024;
/** A case may take so many times its CPU time on the clock: for programs that sleep, on machines that are busy. */
export const WALL_FACTOR = 5;

/**
 * Runs the program, in a new process for each question, so that no case sees what another left. The first line is
 * `{"program", "seconds", "bytes", "wall"}`; then a question a line: `{"stdin"}`, or `{"call", "arguments"}` with a Python literal.
 * Answers: `{"output"}`, `{"value"}` with a Python literal, or `{"failure", "message"}`. The program can forge its own
 * answers only, and what is expected of them is not here.
 */
export const PROGRAM_DRIVER = `
import ast, json, os, resource, signal, sys, time

def limited(seconds, size):
    os.setpgid(0, 0)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD])
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)

def literal(value):
    text = repr(value)
    ast.literal_eval(text)
    return text

def load(program, name):
    names = {"__name__": name}
    exec(compile(program, "<program>", "exec"), names)
    return names

def found(names, path):
    first, *rest = path.split(".")
    if first not in names:
        raise NameError(f"the program does not define {first}")
    return getattr(names[first](), rest[0]) if rest else names[first]

def run(program, question, result):
    if "stdin" in question:
        load(program, "__main__")
        return
    candidate = found(load(program, "program"), question["call"])
    value = candidate(*ast.literal_eval(question["arguments"]))
    result.write(literal(value).encode())
    result.flush()

def child(program, question, streams, limits):
    status = 1
    try:
        stdin, output, errors, result = streams
        for to, stream in enumerate((stdin, output, errors)):
            os.dup2(stream.fileno(), to)
        limited(*limits)
        try:
            run(program, question, result)
            status = 0
        except SystemExit as exit:
            if exit.code not in (None, 0):
                print("SystemExit:", exit.code, file=sys.stderr)
            status = 0 if exit.code in (None, 0) else 1
        except BaseException as error:
            frames = error.__traceback__
            while frames is not None and frames.tb_frame.f_code.co_filename != "<program>":
                frames = frames.tb_next
            import traceback # Its own import takes longer than most programs.
            traceback.print_exception(type(error), error, frames)
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(status)

def kill(pid):
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass

def wait(pid, seconds, wall):
    """Its status, and whether it took longer than it may."""
    end = time.monotonic() + wall
    left = wall
    while left > 0:
        ended, status, used = os.wait4(pid, os.WNOHANG)
        if ended:
            kill(pid)
            return status, used.ru_utime + used.ru_stime >= seconds
        signal.sigtimedwait([signal.SIGCHLD], left)
        left = end - time.monotonic()
    kill(pid)
    return os.waitpid(pid, 0)[1], True

def text(stream):
    stream.seek(0)
    return stream.read().decode("utf8", "replace")

def failed(kind, errors):
    return {"failure": kind, "message": text(errors)[-2000:]}

def ask(program, question, first):
    streams = [os.fdopen(os.memfd_create(name), "w+b") for name in ("stdin", "stdout", "stderr", "result")]
    stdin, output, errors, result = streams
    stdin.write(question.get("stdin", "").encode())
    stdin.seek(0)
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        child(program, question, streams, (first["seconds"], first["bytes"]))
    try:
        os.setpgid(pid, pid)
    except OSError:
        pass
    status, is_late = wait(pid, first["seconds"], first["wall"])
    ended_by = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
    if is_late or ended_by == signal.SIGXCPU:
        return failed("TIME", errors)
    if ended_by == signal.SIGXFSZ:
        return failed("OUTPUT", errors)
    if ended_by == signal.SIGKILL or "MemoryError" in text(errors)[-200:]:
        return failed("MEMORY", errors)
    if status != 0:
        return failed("ERROR", errors)
    return {"output": text(output)} if "stdin" in question else {"value": text(result)}

lines = os.fdopen(os.dup(0), "r", encoding="utf8")
answers = os.fdopen(os.dup(1), "w", encoding="utf8")
os.set_inheritable(answers.fileno(), False)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
first = json.loads(lines.readline())
for line in lines:
    answer = json.dumps(ask(first["program"], json.loads(line), first))
    if len(answer) > first["bytes"]:
        answer = json.dumps({"failure": "OUTPUT", "message": ""})
    answers.write(answer + "\\n")
    answers.flush()
`;
