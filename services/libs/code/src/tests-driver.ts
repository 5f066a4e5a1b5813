// SPDX-License-Identifier: Apache-2.0

/**
 * Asks the program and compares what it says, in a sandbox that the program is not in. The first line is
 * `{"tests", "stopAtFailure"}`. It writes `{"ask"}` and reads the answer a line, then `{"case", "failure", "message"}` for each case
 * (failure null: passed) and `{"done": true}`; or `{"broken"}` where the tests themselves are wrong. Values of the program
 * are read as literals, so that none has an equality of its own.
 *
 * Output is compared as LiveCodeBench does (lcb_runner/evaluation/testing_util.py): as many lines, each equal without spaces at
 * its ends, or equal numbers; results of functions as EvalPlus does: floats within 1e-6, a tuple is a list.
 */
export const TESTS_DRIVER = `
import ast, json, os, sys
from decimal import Decimal, InvalidOperation

TOLERANCE = 1e-6

class Failed(Exception):
    def __init__(self, failure, message):
        super().__init__(message)
        self.failure = failure

class Broken(Exception):
    pass

def say(message):
    said.write(json.dumps(message) + "\\n")
    said.flush()

def ask(question, field):
    say({"ask": question})
    answer = json.loads(lines.readline())
    if "failure" in answer:
        raise Failed(answer["failure"], shown(answer["message"]))
    if field not in answer:
        raise Failed("ERROR", "the program wrote into the answers")
    return answer[field]

def literal(arguments):
    text = repr(list(arguments))
    try:
        ast.literal_eval(text)
    except (ValueError, SyntaxError):
        raise Broken(f"arguments must be plain values, not {shown(text)}")
    return text

def call(name, arguments):
    text = ask({"call": name, "arguments": literal(arguments)}, "value")
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        raise Failed("WRONG", "the result is no plain value")

def numbers(line):
    return [Decimal(word) for word in line.split()]

def same_line(given, wanted):
    if given == wanted:
        return True
    try:
        return numbers(given) == numbers(wanted)
    except InvalidOperation:
        return False

def same_output(given, wanted):
    given, wanted = ([line.strip() for line in text.strip().split("\\n")] for text in (given, wanted))
    return len(given) == len(wanted) and all(map(same_line, given, wanted))

def close(given, wanted):
    try:
        return abs(given - wanted) <= TOLERANCE * max(1, abs(wanted))
    except OverflowError:
        return False

def same(given, wanted):
    if isinstance(given, (list, tuple)) and isinstance(wanted, list):
        return len(given) == len(wanted) and all(map(same, given, wanted))
    if isinstance(given, dict) and isinstance(wanted, dict):
        named = {str(key): value for key, value in given.items()}
        return named.keys() == wanted.keys() and all(same(named[key], wanted[key]) for key in wanted)
    if isinstance(given, bool) or isinstance(wanted, bool):
        return given is wanted
    if isinstance(given, (int, float)) and isinstance(wanted, (int, float)):
        return given == wanted or (float in (type(given), type(wanted)) and close(given, wanted))
    return type(given) is type(wanted) and given == wanted

def shown(given):
    text = given if isinstance(given, str) else repr(given)
    return text if len(text) <= 2000 else text[:1000] + " … " + text[-1000:]

def of_stdin(case):
    output = ask({"stdin": case["input"]}, "output")
    if not same_output(output, case["output"]):
        raise Failed("WRONG", shown(output))

def of_function(name, case):
    value = call(name, case["arguments"])
    if not same(value, case["result"]):
        raise Failed("WRONG", shown(value))

def of_check(tests):
    names = {"__name__": "tests"}
    def candidate(*arguments):
        return call(tests["name"], arguments)
    try:
        for part in (tests["setup"], tests["code"]):
            exec(compile(part, "<tests>", "exec"), names)
        check = names["check"]
        # Some checks of HumanEval call the program by its name.
        names[tests["name"]] = candidate
    except BaseException as error:
        raise Broken(f"{type(error).__name__}: {error}")
    try:
        check(candidate)
    except (Failed, Broken):
        raise
    except BaseException as error:
        raise Failed("WRONG", f"{type(error).__name__}: {shown(str(error))}")

def cases(tests):
    if tests["kind"] == "stdin":
        return [lambda case=case: of_stdin(case) for case in tests["cases"]]
    if tests["kind"] == "function":
        return [lambda case=case: of_function(tests["name"], case) for case in tests["cases"]]
    return [lambda: of_check(tests)]

lines = os.fdopen(os.dup(0), "r", encoding="utf8")
said = os.fdopen(os.dup(1), "w", encoding="utf8")
nothing = os.open("/dev/null", os.O_RDWR)
for stream in (0, 1, 2):
    os.dup2(nothing, stream)
first = json.loads(lines.readline())
try:
    for index, run in enumerate(cases(first["tests"])):
        failure, message = None, ""
        try:
            run()
        except Failed as failed:
            failure, message = failed.failure, str(failed)
        except RecursionError:
            failure, message = "WRONG", "the result is nested too deeply"
        say({"case": index, "failure": failure, "message": message})
        if failure and first["stopAtFailure"]:
            break
    say({"done": True})
except Broken as broken:
    say({"broken": str(broken)})
`;
