# SPDX-License-Identifier: Apache-2.0
"""Asks SWE-bench's and R2E-Gym's own code what logs mean, and writes the answers down for log-verdicts.test.ts.

Needs a virtual environment with swebench==5.0.2 (its log parsers and grading are run), docker, python-dotenv, tqdm, unidiff, pytest,
django and sympy (their runners write the logs), and checkouts of SWE-bench (its tests) and R2E-Gym:

    python record_log_verdicts.py --swe-bench DIR --r2e-gym DIR --out log-verdicts.json

Logs come from three places: SWE-bench's own tests (each call of a parser or of the grading in them is recorded), real runs of pytest,
Django's and sympy's runners, and mixtures of all their lines by a seed.
"""

import argparse
import ast
import importlib.metadata
import json
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import types

NOT_NEEDED = ["datasets", "modal", "modal.container_process", "modal.io_streams", "tenacity", "unidiff", "ghapi", "ghapi.core", "bs4", "chardet", "rich"]
STATUSES = ["FAILED", "PASSED", "SKIPPED", "ERROR", "XFAIL"]
SEED = 13
MIXTURES = 8


def main() -> None:
    parser = argparse.ArgumentParser()
    for name in ["--swe-bench", "--r2e-gym", "--out"]:
        parser.add_argument(name, type=pathlib.Path, required=True)
    options = parser.parse_args()
    stand_in_for_what_is_not_needed()
    from swebench.harness.log_parsers import PARSER_REGISTRY

    theirs = calls_of_their_tests(options.swe_bench)
    real = real_logs()
    parsed = [[name, log, "their tests"] for name, log in theirs["parsers"]]
    parsed += [[name, log, source] for source, log in real for name in parsers_of(source, PARSER_REGISTRY)]
    parsed += mixtures(PARSER_REGISTRY, [log for _, log in theirs["parsers"]] + [log for _, log in real])
    record = {
        "versions": versions(options),
        "parsers": [
            {"parser": name, "source": source, "log": log, "statuses": valid(call(PARSER_REGISTRY[name], log))}
            for name, log, source in unique(parsed)
        ],
        "gradings": gradings(theirs["gradings"]),
        "infra": infra([log for _, log in theirs["parsers"]] + [log for _, log, *_ in theirs["gradings"]]),
        "r2e": r2e(options.r2e_gym, [log for source, log in real if source == "pytest -rA"]),
    }
    options.out.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n")
    print({name: len(cases) for name, cases in record.items()})


def stand_in_for_what_is_not_needed() -> None:
    """The package imports all of itself: data sets, clouds. Nothing of these is called here."""
    for name in NOT_NEEDED:
        try:
            __import__(name)
        except ImportError:
            module = types.ModuleType(name)
            module.__path__ = []
            module.__getattr__ = stand_in  # type: ignore[method-assign]
            sys.modules[name] = module


def stand_in(name: str):
    """Enough to be imported, decorated with and called while a module is loaded."""
    if name.startswith("__"):
        raise AttributeError(name)

    class StandIn:
        def __init__(self, *_, **__): pass
        def __call__(self, *args, **__): return args[0] if args and callable(args[0]) else self
        def __getattr__(self, _): return self

    return StandIn()


def versions(options) -> dict:
    packages = {name: importlib.metadata.version(name) for name in ["swebench", "pytest", "django", "sympy"]}
    return {**packages, "python": sys.version.split()[0], "r2e-gym": "69bc953", "swe-bench tests": "7a21e05"}


class Spec(types.SimpleNamespace):
    """What parsers and grading read of an instance."""

    instance_id = "x__x-1"
    version = "1.0"


def call(parser, log: str):
    try:
        return parser(log, Spec())
    except Exception as error:  # A log that breaks their parser has no verdict.
        return {"__error__": repr(error)}


def valid(statuses: dict) -> dict:
    """Ours drops words that are no status: in SWE-bench a test of such a status counts neither as passed nor as failed."""
    return {name: status for name, status in statuses.items() if status in STATUSES or name == "__error__"}


RECORDER = """
import sys, json
sys.path.insert(0, {here!r})
import record_log_verdicts as recorder
recorder.stand_in_for_what_is_not_needed()
import pytest
from swebench.harness import grading
from swebench.harness import log_parsers
parsers, gradings = [], []

def recorded(name, parser):
    def run(log, test_spec):
        parsers.append([name, log])
        return parser(log, test_spec)
    run.__name__ = name
    return run

for name, parser in list(log_parsers.PARSER_REGISTRY.items()):
    module = sys.modules[parser.__module__]
    if name == parser.__name__:
        setattr(module, name, recorded(name, parser))

real = grading.get_logs_eval
def get_logs_eval(spec, path):
    gradings.append([spec.log_parser, open(path).read()])
    return real(spec, path)
grading.get_logs_eval = get_logs_eval

# One of them reads the parsers' own source, which is the recorder's here.
code = pytest.main(["-q", "-p", "no:cacheprovider", *{files!r}, "-k", "not every_parser_can_record_a_failure"])
json.dump({{"parsers": parsers, "gradings": gradings, "code": int(code)}}, open({out!r}, "w"))
"""


def calls_of_their_tests(checkout: pathlib.Path) -> dict:
    files = sorted(str(path) for pattern in ["test_log_parsers_*.py", "test_grading_*.py"] for path in (checkout / "tests").glob(pattern))
    out = tempfile.mktemp(suffix=".json")
    program = RECORDER.format(here=str(pathlib.Path(__file__).parent), files=files, out=out)
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=checkout, timeout=300)
    if not pathlib.Path(out).exists():
        raise SystemExit(run.stdout[-2000:] + run.stderr[-2000:])
    print("SWE-bench's own tests:", run.stdout.strip().splitlines()[-1])
    return json.loads(pathlib.Path(out).read_text())


PYTEST_SUITE = '''
import pytest, sys, unittest

def test_passes(): print("PASSED in the middle of a line"); print("FAILED - no test")
def test_fails(): assert 1 == 2, "PASSED tests/x.py::y - no"
@pytest.fixture
def broken(): raise RuntimeError("setup - broken")
def test_errors(broken): pass
@pytest.fixture
def broken_end():
    yield
    raise RuntimeError("end")
def test_errors_at_the_end(broken_end): pass
@pytest.mark.skip(reason="not here - not now")
def test_skipped(): pass
@pytest.mark.xfail(reason="known")
def test_xfails(): assert False
@pytest.mark.xfail
def test_xpasses(): pass
@pytest.mark.parametrize("value", ["a b", "/tmp/x/y.txt", "//host/x", "/tmp/*", "a[0]", "x - y", "ä\\u2028", ""])
def test_parameter(value): assert value != "x - y"
class TestClass:
    def test_in_class(self): print("ok"); sys.stderr.write("ERROR: said\\n")
    def test_fails_in_class(self): raise ValueError("first\\nsecond")
class Old(unittest.TestCase):
    def test_sub(self):
        for i in range(3):
            with self.subTest(i=i): self.assertNotEqual(i, 1)
'''

DJANGO_SUITE = '''
import sys, unittest
from django.test import SimpleTestCase
class Tests(SimpleTestCase):
    def test_passes(self): pass
    def test_says(self):
        """Has words, and more."""
    def test_prints(self): sys.stderr.write("printed\\n")
    def test_fails(self): self.assertEqual(1, 2)
    def test_errors(self): raise ValueError("x ... ok")
    @unittest.skip("not ... now")
    def test_skipped(self): pass
    @unittest.expectedFailure
    def test_expected(self): self.fail()
    def test_sub(self):
        for i in range(2):
            with self.subTest(i=i): self.assertEqual(i, 0)
'''

SYMPY_SUITE = '''
from sympy import Symbol
from sympy.testing.pytest import XFAIL, skip
def test_passes(): assert Symbol("x") == Symbol("x")
def test_fails(): assert Symbol("x") == Symbol("y")
def test_errors(): raise ValueError("test_x ok")
def test_skips(): skip("no")
@XFAIL
def test_xfails(): assert False
@XFAIL
def test_xpasses(): pass
'''


def real_logs() -> list:
    """[how it was made, log]"""
    logs = []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "tests").mkdir()
        (folder / "tests/test_suite.py").write_text(PYTEST_SUITE)
        (folder / "tests/test_no_grammar.py").write_text("def")
        (folder / "tests/tests.py").write_text(DJANGO_SUITE)
        (folder / "tests/__init__.py").write_text("")
        (folder / "test_sums.py").write_text(SYMPY_SUITE)
        pytest = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider"]
        suite = "tests/test_suite.py"
        for flags in [["-rA"], ["-rA", "--color=yes"], ["-v"], ["-rA", "-v", "--tb=no"], ["-rA", "-q", "-x"]]:
            logs.append(["pytest " + " ".join(flags), output([*pytest, *flags, suite], folder)])
        logs.append(["pytest that does not collect", output([*pytest, "-rA", "tests"], folder)])
        django = (
            "import django; from django.conf import settings; settings.configure(INSTALLED_APPS=['tests'], DATABASES={});"
            "django.setup(); from django.test.runner import DiscoverRunner; DiscoverRunner(verbosity=2).run_tests(['tests'])"
        )
        logs.append(["django", output([sys.executable, "-c", django], folder)])
        sympy = "import sympy; sympy.test('test_sums.py', verbose=True, subprocess=False, force_colors=False)"
        runner = f"import os; from sympy.testing.runtests import SymPyTests, PyTestReporter; r = PyTestReporter(True, 'short', False); r.root_dir('.'); t = SymPyTests(r); t._testfiles = ['test_sums.py']; t.test()"
        del sympy
        logs.append(["sympy", output([sys.executable, "-c", runner], folder)])
        return [[source, of_no_machine(log.replace(name, "/testbed"))] for source, log in logs]


def of_no_machine(log: str) -> str:
    """Where Python lies on the machine that records is nobody's business, and no parser's."""
    return log.replace(sys.prefix, "/venv").replace(sys.base_prefix, "/usr")


def output(command: list, folder: pathlib.Path) -> str:
    run = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120)
    return re.sub(r"\bin \d+\.\d+s\b", "in 0.10s", run.stdout)


def parsers_of(source: str, registry: dict) -> list:
    kinds = {"django": ["parse_log_django"], "sympy": ["parse_log_sympy"]}
    pytest = ["", "_options", "_v2"]
    return kinds.get(source) or [f"parse_log_pytest{kind}" for kind in pytest] + ["parse_log_seaborn", "parse_log_matplotlib"]


WORDS = (
    "PASSED FAILED ERROR SKIPPED XFAIL XPASSED ok OK not FAIL FAIL: ERROR: PASS: pass skip - ... . .. F E O :: > = s [ok]: [err]: [skip]: "
    "[1] [23] [100%] tests/test_a.py::test_b[a test_c[/tmp/x] test_d (tests.E) test_f, a.py:test_g ___ (0.02s) (3 ms) 12ms [skipped] --- PASS: "
    "BUILD SUCCESS FAILURE -Dtest=A#b [INFO] test a::b ... [junit] [PASS] [ERR] ✓ ✕ ○ × ↓ ✔ ✘ ↩ Suite (x) [OK] [PASSED] passed failed 1 2) "
    "test_h.py:test_i MouseButton.LEFT \x1b[32m [31m in Testing against Django installed silenced).\nok System check identified no issues (0 silenced)"
).split(" ")


def mixtures(registry: dict, logs: list) -> list:
    """Lines of real logs, some broken, and lines of words that mean something to some parser."""
    ours = our_parsers()
    rng = random.Random(SEED)
    lines = sorted({line for log in logs for line in log.split("\n") if 0 < len(line) < 200})
    cases = []
    for name in sorted(ours & registry.keys()):
        for _ in range(MIXTURES):
            made = []
            for _ in range(rng.randint(3, 14)):
                kind = rng.random()
                line = rng.choice(lines)
                if kind < 0.35:
                    made.append(line)
                elif kind < 0.5:
                    made.append(line[: rng.randint(0, len(line))] + rng.choice(["", " ", "\t"]) + rng.choice(WORDS))
                else:
                    made.append(rng.choice(["", " ", "  "]) + " ".join(rng.choices(WORDS, k=rng.randint(1, 7))))
            cases.append([name, "\n".join(made), "mixture"])
    return cases


def our_parsers() -> set:
    source = pathlib.Path(__file__).parents[2] / "src/formats/log-parsers/registry.ts"
    return set(re.findall(r"^  (parse_log_\w+):", source.read_text(), re.MULTILINE))


def unique(cases: list) -> list:
    ours = our_parsers()
    seen = {}
    for name, log, source in cases:
        if name in ours:
            seen.setdefault((name, log), source)
    return [(name, log, source) for (name, log), source in seen.items()]


NAMES = ["test_a", "test_b", "tests/test_a.py::test_in", "tests/test_a.py::test_x[a", "t", "tests/test_suite.py::test_passes"]


def gradings(cases: list) -> list:
    """From a whole log to the verdict of an instance, for many pairs of lists."""
    from swebench.harness.constants import EvalType
    from swebench.harness.grading import get_eval_tests_report, get_logs_eval, get_resolution_status

    rng = random.Random(SEED)
    bodies = [f"{rng.choice(STATUSES)} test_a\n{rng.choice(STATUSES)} test_b\n{rng.choice(STATUSES)} tests/test_a.py::test_x[a b]" for _ in range(70)]
    made = [
        ["parse_log_pytest_v2", f"+ : '>>>>> Start Test Output'\n{body}\n+ : '>>>>> End Test Output'\n>>>>> Test Exit Code: {rng.choice([0, 1])}\n"]
        for body in bodies
    ]
    made += [["parse_log_pytest", f"{bad}\n>>>>> Start Test Output\nPASSED test_a\n>>>>> End Test Output"] for bad in [
        ">>>>> Patch Apply Failed", ">>>>> Reset Failed", ">>>>> Tests Errored", ">>>>> Tests Timed Out", ""]]
    answers = []
    for parser, log in unique_pairs(cases + made):
        for kind in EvalType:
            f2p, p2p = rng.sample(NAMES, rng.randint(1, 2)), rng.sample(NAMES, rng.randint(0, 2))
            spec = Spec(log_parser=parser, FAIL_TO_PASS=f2p, PASS_TO_PASS=p2p, eval_type=kind.value)
            with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
                file.write(log)
                file.flush()
                statuses, found = get_logs_eval(spec, file.name)
            gold = {"FAIL_TO_PASS": f2p, "PASS_TO_PASS": p2p}
            report = get_eval_tests_report(statuses, gold, eval_type=kind)
            failed = report["FAIL_TO_PASS"]["failure"] + report["PASS_TO_PASS"]["failure"]
            answers.append({
                "parser": parser, "log": log, "evalType": kind.value, "failToPass": f2p, "passToPass": p2p,
                "found": found, "failed": failed, "resolution": get_resolution_status(report) if found else None,
            })
    return answers


def unique_pairs(cases: list) -> list:
    ours = our_parsers()
    return [pair for pair in dict.fromkeys((parser, log) for parser, log in cases) if pair[0] in ours]


def infra(logs: list) -> list:
    from swebench.harness.infra_failure import INFRA_FAILURE_SIGNATURES, classify_text

    examples = [word for _, _, pattern in INFRA_FAILURE_SIGNATURES for word in re.sub(r"[\^$]|\\d\+", lambda m: "30" if "d" in m[0] else "", pattern).split("|")]
    texts = list(dict.fromkeys([*logs[:20], *examples, "\n".join(reversed(examples)), ""]))
    return [{"log": text, "class": classify_text(text)} for text in texts]


def r2e(checkout: pathlib.Path, logs: list) -> list:
    """Their parser, and the body of their reward, which stands in a class that needs docker."""
    source = checkout / "src/r2egym/repo_analysis/execution_log_parser.py"
    space: dict = {"json": json, "re": re}
    exec(compile(source.read_text().split('if __name__')[0], str(source), "exec"), space)
    runtime = ast.parse((checkout / "src/r2egym/agenthub/runtime/docker.py").read_text())
    [cls] = [node for node in runtime.body if isinstance(node, ast.ClassDef)]
    reward = [node for node in cls.body if isinstance(node, ast.FunctionDef) and node.name in ("run_tests", "_calculate_reward_r2e")]
    exec(compile(ast.Module(reward, []), "docker.py", "exec"), space)
    [example] = re.findall(r'log = """(.*?)"""', source.read_text(), re.DOTALL)
    example = re.sub(r"/\S*/repos/[^/\s]+", "/testbed", example)
    rng = random.Random(SEED)
    cases = []
    for log in [example, *logs, *[coloured(log) for log in logs], "", "no summary", "= short test summary info =\nPASSED a::b\nPASSED a::b - c"]:
        right = space["decolor_dict_keys"](space["parse_log_pytest"](re.sub(r"\x1b\[[0-9;]*m|\r", "", log)))
        for expected in [right, *[changed(right, rng) for _ in range(4)], {}]:
            me = types.SimpleNamespace(alt_path="/root", ds={"expected_output_json": json.dumps(expected)})
            me.run = lambda *_, log=log, **__: (log, "0")
            me.run_tests = lambda me=me: space["run_tests"](me)
            me.parse_logs = space["parse_log_pytest"]
            try:
                paid = space["_calculate_reward_r2e"](me)
            except KeyError:  # As many tests, of other names: their reward is not defined there.
                paid = 0.0
            cases.append({"log": log, "expected": expected, "reward": paid})
    return cases


def coloured(log: str) -> str:
    return re.sub(r"^(PASSED|FAILED|ERROR) ", "\x1b[32m\\1\x1b[0m ", log, flags=re.MULTILINE)


def changed(statuses: dict, rng: random.Random) -> dict:
    other = dict(statuses)
    for name in rng.sample(sorted(other), min(1, len(other))):
        kind = rng.random()
        if kind < 0.4:
            other[name] = rng.choice(STATUSES)
        elif kind < 0.7:
            del other[name]
        else:
            other[f"{name} - more"] = other.pop(name)
    return other


if __name__ == "__main__":
    main()
