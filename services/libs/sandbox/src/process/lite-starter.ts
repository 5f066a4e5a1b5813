// SPDX-License-Identifier: Apache-2.0
/**
 * What keeps a command at level C: a Python program, since Node can neither restrict itself nor fork. Its arguments are LiteSettings in
 * JSON and the command; on descriptor 4 it says which limit the command ran into, and "ended" when nothing of it is left.
 *
 * L1: its own Landlock domain is there for signals only, and the command's lies inside it. `kill(-1)` so reaches every process of
 * the command and nothing else, however often it forks; the command reaches neither the keeper nor anybody beside it. A deputy
 * does it where the keeper itself is killed.
 * L2: orphans come back to the keeper, so that it knows that all have ended. L3: nothing starts where Landlock knows no signals.
 */
export const LITE_STARTER = String.raw`
import ctypes, json, os, resource, signal, struct, sys, time
libc = ctypes.CDLL(None, use_errno=True)
settings = json.loads(sys.argv[1])
without = set(settings["without"])
REPORT = 4
STOP, CHILD = signal.SIGTERM, signal.SIGCHLD
SIGNALS_KNOWN = 6

def call(what, *arguments):
    result = libc.syscall(*arguments)
    if result < 0: raise OSError(ctypes.get_errno(), what + ": " + os.strerror(ctypes.get_errno()))
    return result

def restrict(files=0, network=0, scopes=0, readable=(), writable=()):
    if not (files or network or scopes): return
    rules = call("landlock_create_ruleset", 444, struct.pack("<QQQ", files, network, scopes), ctypes.c_size_t(24), 0)
    for paths, rights in ((readable, 1 | 4 | 8), (writable, (1 << 16) - 1)):
        for path in paths if files else ():
            try: fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
            except OSError: continue
            of_file = 1 | 2 | 4 | 1 << 14 | 1 << 15
            allowed = rights & files if os.path.isdir(path) else rights & files & of_file
            call(path, 445, rules, 1, struct.pack("<Qi", allowed, fd), 0)
            os.close(fd)
    call("landlock_restrict_self", 446, rules, 0)
    os.close(rules)

def limit(which, value, guard):
    if guard not in without: resource.setrlimit(which, (value, value))

def become(program, command):
    libc.prctl(1, signal.SIGKILL, 0, 0, 0)
    if "session" not in without: os.setsid()
    for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT): signal.signal(number, signal.SIG_DFL)
    # The kernel takes what runs here when memory is short, not who keeps it.
    with open("/proc/self/oom_score_adj", "w") as file: file.write("1000")
    limit(resource.RLIMIT_CORE, 0, "core files")
    limit(resource.RLIMIT_AS, settings["memoryBytes"], "memory")
    limit(resource.RLIMIT_FSIZE, settings["fileBytes"], "disk")
    limit(resource.RLIMIT_NOFILE, settings["openFiles"], "open files")
    os.chdir(settings["cwd"])
    scopes = 0 if "process namespace" in without else 3
    files = 0 if "root folder" in without else (1 << 16) - 1
    restrict(files, 0 if "network namespace" in without else 3, scopes, settings["readable"], settings["writable"])
    if "seccomp" not in without:
        code = ctypes.create_string_buffer(program, len(program))
        filter = struct.pack("<H6xQ", len(program) // 8, ctypes.addressof(code))
        if libc.prctl(22, 2, filter, 0, 0) != 0: raise OSError(ctypes.get_errno(), "seccomp")
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {STOP, CHILD})
    environment = settings["env"] if "environment" not in without else {**os.environ, **settings["env"]}
    begin = 'echo >&4; exec 4>&-; exec "$@"'
    os.execve("/bin/sh", ["/bin/sh", "-c", begin, "sh", *command], environment)

def children(pid):
    found = []
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children") as file: found += file.read().split()
    except OSError: pass
    return found

def stand_by(keeper):
    os.closerange(0, REPORT + 1)
    os.setsid()  # Its owner ends the keeper's process group.
    libc.prctl(1, STOP, 0, 0, 0)
    if os.getppid() == keeper: signal.sigwait({STOP})
    for _ in range(10):
        try: os.kill(-1, signal.SIGKILL)
        except OSError: break
        time.sleep(0.01)

def family():
    waiting, found = [pid for pid in children(os.getpid()) if int(pid) != deputy], []
    while waiting:
        pid = waiting.pop()
        found.append(pid)
        waiting += children(pid)
    return found

def first(path, split=None):
    try:
        with open(path) as file: return file.read().split(split)
    except OSError: return []

def used_up():
    """Sampled, so what is very short is not seen: the pod's own limits are behind it."""
    threads = own = 0
    pids = family()
    for pid in pids:
        stat = first(f"/proc/{pid}/stat", ") ")
        threads += int(stat[-1].split()[17]) if stat else 0
        pages = first(f"/proc/{pid}/statm")
        own += (int(pages[1]) - int(pages[2])) * resource.getpagesize() if pages else 0
    if threads > settings["processes"] and "processes" not in without: return "PROCESSES"
    if own <= settings["memoryBytes"] or "memory" in without: return ""
    # Pages that a fork shares with its parent were counted twice.
    shared = [line for pid in pids for line in first(f"/proc/{pid}/smaps_rollup", "\n") if line.startswith("Pss_Anon:")]
    return "MEMORY" if sum(int(line.split()[1]) for line in shared) * 1024 > settings["memoryBytes"] else ""

def reap():
    """@returns the first child's status once it has ended, and whether any child is left"""
    status = None
    while True:
        try: pid, ended = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError: return status, False
        if pid == 0: return status, True
        if pid == child: status = ended

def kill_all():
    pause = 0.001
    while reap()[1]:
        try: os.kill(*((-1, 9) if "process namespace" not in without else (child, 9)))
        except OSError: pass
        signal.sigtimedwait({CHILD}, pause)
        pause = min(pause * 2, 0.1)

def main():
    global child, deputy
    signal.pthread_sigmask(signal.SIG_BLOCK, {STOP, CHILD})
    libc.prctl(1, STOP, 0, 0, 0)
    if os.getppid() != settings["owner"]: os._exit(1)
    with open(3, "rb") as file: program = file.read()
    os.closerange(REPORT + 1, 1 << 20)
    known = libc.syscall(444, None, ctypes.c_size_t(0), 1)
    if known < SIGNALS_KNOWN:
        sys.exit(f"Landlock is at {max(known, 0)} here, {SIGNALS_KNOWN} is needed (Linux 6.12)")
    libc.prctl(38, 1, 0, 0, 0)
    libc.prctl(36, 1, 0, 0, 0)
    keeper, deputy = os.getpid(), 0
    if "process namespace" not in without:
        restrict(scopes=2)
        deputy = os.fork()
        if deputy == 0:
            stand_by(keeper)
            os._exit(0)
    ends = time.monotonic() + settings["ttlSeconds"]
    child = os.fork()
    if child == 0:
        try: become(program, sys.argv[2:])
        except BaseException as error: sys.stderr.write(f"{error}\n")
        os._exit(1)
    status = None
    while status is None:
        happened = signal.sigtimedwait({STOP, CHILD}, 0.1)
        status = reap()[0]
        if happened and happened.si_signo == STOP or time.monotonic() > ends: break
        failure = used_up() if status is None else ""
        if failure:
            os.write(REPORT, failure.encode() + b"\n")
            break
    kill_all()
    os.write(REPORT, b"ended\n")
    code = 137 if status is None else os.waitstatus_to_exitcode(status)
    os._exit(code if code >= 0 else 128 - code)

main()
`;
