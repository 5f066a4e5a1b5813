// SPDX-License-Identifier: Apache-2.0

/** CPU time of one question. Who needs more is ended: it gives no verdict. */
export const QUESTION_SECONDS = 10;
/** A question may take so many times that on the clock, on machines that are busy. */
export const WALL_FACTOR = 12;
/** Address space of the process that answers one question. */
export const QUESTION_MIB = 768;

/**
 * Before Math-Verify. It reads numbers with sympy's `parse_expr`, which runs what it reads as Python: nothing but arithmetic
 * gets there, whatever a later version of a package hands to it. The units read their own names in that way.
 */
export const ARITHMETIC_ONLY = `
import os, sys
sys.path.insert(0, os.environ["HOME"])
import sympy.physics.units
from sympy.parsing import sympy_parser

ARITHMETIC = frozenset("0123456789.+-*/()\\u00d7\\u00f7 \\t\\n")
stringify_expr = sympy_parser.stringify_expr

class NotArithmetic(BaseException): # Math-Verify makes "not equal" of every Exception.
    pass

def stringify_arithmetic(text, *more):
    if not ARITHMETIC.issuperset(text):
        raise NotArithmetic(text[:100])
    return stringify_expr(text, *more)

sympy_parser.stringify_expr = stringify_arithmetic
`;

/**
 * Keeps Math-Verify loaded, and answers each question in a process of its own, several at once. A question is a line
 * \`{"id", "truths", "answer"}\`; its answer \`{"id", "isEqual", "answer"}\` with the part of the text that was read, or
 * \`{"id", "unread"}\` with the number of a truth that cannot be read, or \`{"id", "failure", "readTruths"}\`:
 * TIME and ERROR are the texts' doing, LATE and KILLED are not. The first line is \`{"version"}\`.
 */
export const MATH_VERIFY_DRIVER = `${ARITHMETIC_ONLY}
import gc, json, resource, selectors, signal, time
from importlib.metadata import version
from math_verify import ExprExtractionConfig, LatexExtractionConfig, parse, verify

KINDS = (LatexExtractionConfig(boxed_match_priority=0), ExprExtractionConfig())
SECONDS, WALL, BYTES = ${QUESTION_SECONDS}, ${QUESTION_SECONDS * WALL_FACTOR}, ${QUESTION_MIB} << 20

def read(text):
    return parse(text, KINDS, parsing_timeout=None)

def judge(question, say):
    truths = [read(truth) for truth in question["truths"]]
    for number, truth in enumerate(truths):
        if not truth:
            return {"unread": number}
    say("")
    answer = read(question["answer"])
    is_equal = any(verify(truth, answer, timeout_seconds=None) for truth in truths)
    return {"isEqual": is_equal, "answer": answer[-1][:200] if answer and isinstance(answer[-1], str) else None}

def child(question, pipe):
    status = 1
    try:
        null = os.open("/dev/null", os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(null, stream)
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS + 1))
        resource.setrlimit(resource.RLIMIT_AS, (BYTES, BYTES))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        with os.fdopen(pipe, "w", encoding="utf8") as output:
            def say(line):
                output.write(line + "\\n")
                output.flush()
            say(json.dumps(judge(question, say)))
        status = 0
    finally:
        os._exit(status)

class Question:
    def __init__(self, question):
        self.id = question["id"]
        self.said = b""
        self.is_late = False
        self.end = time.monotonic() + WALL
        self.pipe, written = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self.pipe)
            child(question, written)
        os.close(written)

    def give_up(self):
        self.is_late, self.end = True, float("inf")
        os.kill(self.pid, signal.SIGKILL)

    def outcome(self):
        os.close(self.pipe)
        _, status, used = os.wait4(self.pid, 0)
        lines = self.said.decode("utf8", "replace").splitlines()
        if status == 0:
            return json.loads(lines[-1])
        return {"failure": self.failure(status, used), "readTruths": len(lines) > 0}

    def failure(self, status, used):
        ended_by = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
        if ended_by == signal.SIGXCPU or used.ru_utime + used.ru_stime >= SECONDS:
            return "TIME"
        if self.is_late:
            return "LATE"
        return "KILLED" if ended_by in (signal.SIGKILL, signal.SIGTERM) else "ERROR"

def tell(message):
    sys.stdout.write(json.dumps(message) + "\\n")
    sys.stdout.flush()

# What is loaded and built at first, all processes have.
FIRST = ("1/2", "$x^2+2x+1$", "$(x+1)^2$", "$(1,3)$", "$\\\\{1,3\\\\}$", "$x < 2$", "$x = \\\\sqrt{2}$", "$\\\\begin{pmatrix}1&2\\\\end{pmatrix}$", "$\\\\sin(x)$")
for truth in FIRST:
    for answer in FIRST:
        verify(read(truth), read(answer), timeout_seconds=None)
gc.freeze()
tell({"version": version("math-verify")})
chooser = selectors.DefaultSelector()
chooser.register(0, selectors.EVENT_READ)
running, unread = {}, b""
while True:
    first = min((question.end for question in running.values()), default=float("inf"))
    ready = chooser.select(None if first == float("inf") else max(0, first - time.monotonic()))
    for key, _ in ready:
        data = os.read(key.fd, 65536)
        if key.fd == 0:
            if not data:
                sys.exit()
            *lines, unread = (unread + data).split(b"\\n")
            for line in lines:
                question = Question(json.loads(line))
                running[question.pipe] = question
                chooser.register(question.pipe, selectors.EVENT_READ)
        elif data:
            running[key.fd].said += data
        else:
            chooser.unregister(key.fd)
            question = running.pop(key.fd)
            tell({"id": question.id, **question.outcome()})
    for question in running.values():
        if question.end <= time.monotonic():
            question.give_up()
`;
