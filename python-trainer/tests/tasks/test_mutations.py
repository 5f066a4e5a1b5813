# SPDX-License-Identifier: Apache-2.0
import ast
import textwrap

import pytest

from whetstone_tasks.mutations import Change, changes_in

SOURCE = textwrap.dedent(
    '''
    LIMIT = 3

    def plain(value, low=0, name="x"):
        """Says what it does."""
        if not value:
            return low
        for item in value:
            if (item.a
                    < low) and item.b:  # kept
                continue
            low += 1
        é = f"{low + 1}"
        print(é, low)
        return max(low, 2 if name else 4)

    class Thing:
        @property
        def size(self):
            return self.a is not None
    '''
).encode()


def _texts(kind: str) -> list[str]:
    """The lines that a kind changes, as they become."""
    old = SOURCE.decode().splitlines()
    found = []
    for change in changes_in(SOURCE):
        if change.kind == kind:
            new = change.apply(SOURCE).decode().splitlines()
            found += [line.strip() for line in new if line not in old]
    return found


@pytest.mark.parametrize(
    ("kind", "line"),
    [
        ("compare", "<= low) and item.b:  # kept"),
        ("compare", "return self.a is None"),
        ("boolean", "< low) or item.b:  # kept"),
        ("operator", "low -= 1"),
        ("off_by_one", "low += 2"),
        ("negation", "if (value):"),
        ("dropped_branch", "pass"),
        ("dropped_call", "pass"),
        ("dropped_return", "return None"),
        ("swapped_arguments", "print(low, é)"),
        ("swapped_branches", "return max(low, 4 if name else 2)"),
        ("loop_exit", "break"),
        ("wrong_default", 'def plain(value, low=1, name="x"):'),
        ("wrong_default", 'def plain(value, low=0, name=""):'),
        ("removed_body", "raise NotImplementedError"),
    ],
)
def test_changes_a_line_and_keeps_the_rest(kind: str, line: str) -> None:
    assert line in _texts(kind)


def test_every_change_is_a_program_and_another_one() -> None:
    before = ast.dump(ast.parse(SOURCE))
    changes = changes_in(SOURCE)
    assert len(changes) > 20
    assert all(ast.dump(ast.parse(change.apply(SOURCE))) != before for change in changes)


def test_names_functions_as_their_code_objects_do() -> None:
    places = {(change.function, change.first_line) for change in changes_in(SOURCE)}
    assert places == {("plain", 4), ("Thing.size", 18)}


def test_leaves_format_strings_alone() -> None:
    inside = SOURCE.decode().splitlines().index('    é = f"{low + 1}"') + 1
    assert not [change for change in changes_in(SOURCE) if change.line == inside and change.kind == "operator"]


def test_leaves_percent_formats_alone() -> None:
    source = b'def f(x):\n    return "%s" % x\n'
    assert [change.kind for change in changes_in(source)] == ["dropped_return"]


def test_applies_by_bytes() -> None:
    change = Change("compare", "f", 1, 1, 2, 3, "é")
    assert change.apply("é<b".encode()) == "ééb".encode()
