# SPDX-License-Identifier: Apache-2.0
"""Bugs that can be planted in a function: what changes of its text there are.

The text is changed, never written anew from the tree, so that nothing but the bug tells a changed line from its
neighbours."""

import ast
import re
from collections.abc import Callable, Iterator

from whetstone_tasks.changes import Change

COMPARISONS = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "=="}
COMPARISON_WORDS = {"is": "is not", "is not": "is", "in": "not in", "not in": "in"}
ARITHMETIC = {"+": "-", "-": "+", "*": "//", "//": "*", "/": "*", "%": "//", "&": "|", "|": "&", "<<": ">>", ">>": "<<"}
MAX_NUMBER = 1000
MIN_REMOVED_STATEMENTS = 2


def changes_in(source: bytes) -> list[Change]:
    """All ways to break a file's functions that leave it a program."""
    text = _Text(source)
    tree = ast.parse(source)
    found: list[Change] = []
    for function, name in _functions(tree):
        first_line = min([function.lineno, *(each.lineno for each in function.decorator_list)])
        for kind, node, start, end, new in _changes_of(function, text):
            found.append(Change(kind, name, first_line, node.lineno, start, end, new))
    return [change for change in found if _differs(change, source, tree)]


def _differs(change: Change, source: bytes, tree: ast.Module) -> bool:
    try:
        return ast.dump(ast.parse(change.apply(source))) != ast.dump(tree)
    except (SyntaxError, ValueError):
        return False


def _functions(tree: ast.Module) -> Iterator[tuple[ast.FunctionDef, str]]:
    """Functions and methods with their names; what is defined within a function belongs to it."""

    def below(node: ast.AST, prefix: str) -> Iterator[tuple[ast.FunctionDef, str]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef):
                yield child, prefix + child.name
            elif isinstance(child, ast.ClassDef):
                yield from below(child, f"{prefix}{child.name}.")
            elif not isinstance(child, ast.AsyncFunctionDef):
                yield from below(child, prefix)

    return below(tree, "")


class _Text:
    """Positions of nodes in the file's bytes."""

    def __init__(self, source: bytes) -> None:
        self.source = source
        self._lines = [0]
        for line in source.splitlines(keepends=True):
            self._lines.append(self._lines[-1] + len(line))

    def start(self, node: ast.expr | ast.stmt) -> int:
        return self._lines[node.lineno - 1] + node.col_offset

    def end(self, node: ast.expr | ast.stmt) -> int:
        return self._lines[(node.end_lineno or node.lineno) - 1] + (node.end_col_offset or 0)

    def of(self, node: ast.expr | ast.stmt) -> str:
        return self.source[self.start(node) : self.end(node)].decode()

    def between(self, left: ast.expr, right: ast.expr) -> tuple[int, int, str]:
        start, end = self.end(left), self.start(right)
        return start, end, self.source[start:end].decode()


Found = tuple[str, ast.expr | ast.stmt, int, int, str]
"""Kind, node, first byte, byte after the last, new text."""


def _changes_of(function: ast.FunctionDef, text: _Text) -> Iterator[Found]:
    # Before Python 3.12 positions inside f-strings are wrong.
    inside_fstrings = {
        id(node) for string in ast.walk(function) if isinstance(string, ast.JoinedStr) for node in ast.walk(string)
    }
    for statement in function.body:
        for node in ast.walk(statement):
            operator = OPERATORS.get(type(node))
            if operator is not None and id(node) not in inside_fstrings:
                yield from operator(node, text)
    yield from _defaults(function, text)
    yield from _removed_body(function, text)


def _replace(kind: str, node: ast.expr | ast.stmt, text: _Text, new: str) -> Found:
    return kind, node, text.start(node), text.end(node), new


def _swap_operator(kind: str, left: ast.expr, right: ast.expr, text: _Text, table: dict[str, str]) -> Iterator[Found]:
    start, end, gap = text.between(left, right)
    code = re.sub(r"[()\\\s]+", " ", gap).strip()
    if code in table:
        new = re.sub(re.escape(code).replace(r"\ ", r"\s+"), table[code], gap, count=1)
        yield kind, left, start, end, new


def _compare(node: ast.Compare, text: _Text) -> Iterator[Found]:
    left = node.left
    for right in node.comparators:
        yield from _swap_operator("compare", left, right, text, COMPARISONS | COMPARISON_WORDS)
        left = right


def _binary(node: ast.BinOp, text: _Text) -> Iterator[Found]:
    is_format = isinstance(node.op, ast.Mod) and isinstance(node.left, ast.Constant | ast.JoinedStr)
    if not is_format:
        yield from _swap_operator("operator", node.left, node.right, text, ARITHMETIC)


def _boolean(node: ast.BoolOp, text: _Text) -> Iterator[Found]:
    for left, right in zip(node.values, node.values[1:], strict=False):
        yield from _swap_operator("boolean", left, right, text, {"and": "or", "or": "and"})


def _constant(node: ast.Constant, text: _Text) -> Iterator[Found]:
    if isinstance(node.value, bool):
        yield _replace("flag", node, text, str(not node.value))
    elif type(node.value) is int and abs(node.value) < MAX_NUMBER:
        yield _replace("off_by_one", node, text, str(node.value + 1))
        if node.value > 0:
            yield _replace("off_by_one", node, text, str(node.value - 1))


def _not(node: ast.UnaryOp, text: _Text) -> Iterator[Found]:
    if isinstance(node.op, ast.Not):
        yield _replace("negation", node, text, f"({text.of(node.operand)})")


def _if(node: ast.If, text: _Text) -> Iterator[Found]:
    if not isinstance(node.test, ast.UnaryOp | ast.Compare):
        yield _replace("negation", node.test, text, f"not ({text.of(node.test)})")
    first, last = node.body[0], node.body[-1]
    if not isinstance(first, ast.Pass):
        yield "dropped_branch", first, text.start(first), text.end(last), "pass"


def _conditional(node: ast.IfExp, text: _Text) -> Iterator[Found]:
    start, end = text.start(node.body), text.end(node.orelse)
    middle = text.source[text.end(node.body) : text.start(node.orelse)].decode()
    yield "swapped_branches", node, start, end, f"{text.of(node.orelse)}{middle}{text.of(node.body)}"


def _return(node: ast.Return, text: _Text) -> Iterator[Found]:
    if node.value is not None and not isinstance(node.value, ast.Constant):
        yield _replace("dropped_return", node.value, text, "None")


def _call(node: ast.Call, text: _Text) -> Iterator[Found]:
    for left, right in zip(node.args, node.args[1:], strict=False):
        if not isinstance(left, ast.Starred) and not isinstance(right, ast.Starred):
            middle = text.source[text.end(left) : text.start(right)].decode()
            swapped = f"{text.of(right)}{middle}{text.of(left)}"
            yield "swapped_arguments", left, text.start(left), text.end(right), swapped
            return


def _statement(node: ast.Expr, text: _Text) -> Iterator[Found]:
    if isinstance(node.value, ast.Call):
        yield _replace("dropped_call", node, text, "pass")


def _augmented(node: ast.AugAssign, text: _Text) -> Iterator[Found]:
    table = {f"{old}=": f"{new}=" for old, new in ARITHMETIC.items()}
    yield from _swap_operator("operator", node.target, node.value, text, table)


def _break(node: ast.Break, text: _Text) -> Iterator[Found]:
    yield _replace("loop_exit", node, text, "continue")


def _continue(node: ast.Continue, text: _Text) -> Iterator[Found]:
    yield _replace("loop_exit", node, text, "break")


OPERATORS: dict[type[ast.AST], Callable[..., Iterator[Found]]] = {
    ast.Compare: _compare,
    ast.BinOp: _binary,
    ast.BoolOp: _boolean,
    ast.Constant: _constant,
    ast.UnaryOp: _not,
    ast.If: _if,
    ast.IfExp: _conditional,
    ast.Return: _return,
    ast.Call: _call,
    ast.Expr: _statement,
    ast.AugAssign: _augmented,
    ast.Break: _break,
    ast.Continue: _continue,
}


def _defaults(function: ast.FunctionDef, text: _Text) -> Iterator[Found]:
    for default in [*function.args.defaults, *(each for each in function.args.kw_defaults if each is not None)]:
        if not isinstance(default, ast.Constant):
            continue
        value = default.value
        if isinstance(value, bool):
            yield _replace("wrong_default", default, text, str(not value))
        elif type(value) is int:
            yield _replace("wrong_default", default, text, str(value + 1))
        elif isinstance(value, str) and value:
            yield _replace("wrong_default", default, text, '""')


def _removed_body(function: ast.FunctionDef, text: _Text) -> Iterator[Found]:
    has_docstring = ast.get_docstring(function) is not None
    body = function.body[1:] if has_docstring else function.body
    if len(body) >= MIN_REMOVED_STATEMENTS and body[0].lineno > function.lineno:
        yield "removed_body", body[0], text.start(body[0]), text.end(body[-1]), "raise NotImplementedError"
