// SPDX-License-Identifier: Apache-2.0

/**
 * The program that keeps the names of an episode's calls. It reads a request a line, `{"code", "seconds", "end"}`, and writes what
 * the code prints, then a line of `end` and how it went. `end` is not to be guessed by the code; code that finds it out all the
 * same can only lie about its own output.
 */
export const PYTHON_DRIVER = `
import ast, json, linecache, os, signal, sys, traceback

class DeadlineExceeded(BaseException):
    pass

def on_alarm(*_):
    raise DeadlineExceeded()

def run(code, name, names):
    linecache.cache[name] = (len(code), None, code.splitlines(True), name)
    body = ast.parse(code, name).body
    last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
    exec(compile(ast.Module(body, []), name, "exec"), names)
    if last is not None:
        value = eval(compile(ast.Expression(last.value), name, "eval"), names)
        if value is not None:
            print(repr(value))

requests = os.fdopen(os.dup(0), "r")
os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
os.dup2(1, 2)
signal.signal(signal.SIGALRM, on_alarm)
names = {"__name__": "__main__"}
for count, line in enumerate(requests, 1):
    request = json.loads(line)
    status = "ok"
    try:
        signal.setitimer(signal.ITIMER_REAL, request["seconds"])
        run(request["code"], f"<call {count}>", names)
    except DeadlineExceeded:
        status = "deadline"
    except SystemExit as exit:
        print(f"SystemExit: {exit.code}")
    except BaseException as error:
        frames = error.__traceback__
        while frames is not None and not frames.tb_frame.f_code.co_filename.startswith("<call "):
            frames = frames.tb_next
        traceback.print_exception(type(error), error, frames)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    sys.stdout.flush()
    sys.stderr.flush()
    os.write(1, f"{request['end']} {status}\\n".encode())
`;
