# SPDX-License-Identifier: Apache-2.0
"""MODULE[:NAME] of the command line → the environments that it stands for."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType

from whetstone_env.define import Kind, kind_of
from whetstone_env.errors import LoadError, words_of

# Packages whose environments are played as they are: the module here that knows them, and what gives its kind.
PACKAGES = {
    "gymnasium": ("gymnasium_environment", "gymnasium_kind"),
    "reasoning-gym": ("reasoning_gym_environment", "reasoning_gym_kind"),
    "textarena": ("textarena_environment", "textarena_kind"),
    "verifiers": ("verifiers_environment", "verifiers_kind"),
}


def load_kinds(targets: Iterable[str]) -> dict[str, Kind]:
    """By name. Raises LoadError for what cannot be imported, has no environment, or names one twice."""
    kinds: dict[str, Kind] = {}
    for target in targets:
        for kind in _kinds_of(target):
            if kinds.setdefault(kind.name, kind) is not kind:
                raise LoadError(f'{target}: another environment is named "{kind.name}" already; rename one of them')
    return kinds


def _kinds_of(target: str) -> list[Kind]:
    module_name, _, name = target.partition(":")
    if module_name in PACKAGES:
        return [_of_package(module_name, name)]
    module = _import(module_name)
    found = list(dict.fromkeys(kind for value in vars(module).values() if (kind := kind_of(value))))
    if not found:
        raise LoadError(f'{module_name} has no environment: put @environment("kind") of whetstone_env before a class')
    named = [kind for kind in found if name in ("", kind.name, getattr(kind.create, "__name__", None))]
    if not named:
        known = ", ".join(kind.name for kind in found)
        raise LoadError(f'{module_name} has no environment "{name}"; it has {known}')
    return named


def _of_package(package: str, name: str) -> Kind:
    """Of one of PACKAGES, which is imported only when it is asked for: some take long."""
    module, function = PACKAGES[package]
    try:
        kind_of_package = getattr(importlib.import_module(f"whetstone_env.{module}"), function)
    except ModuleNotFoundError as error:
        raise LoadError(f"{package} needs the package {package}: {error}; pip install {package}") from error
    if name == "":
        return kind_of_package()
    if package == "gymnasium":
        return kind_of_package(name)
    raise LoadError(f"{package}:{name}: write {package} alone; the job says in environment.args what is played")


def _import(name: str) -> ModuleType:
    """A dotted name, or the path of a file, whose folder then is where its imports are looked for first."""
    path = Path(name)
    is_file = path.suffix == ".py" or "/" in name
    if is_file and not path.is_file():
        raise LoadError(f"{name}: there is no such file")
    sys.path.insert(0, str(path.resolve().parent if is_file else Path.cwd()))
    try:
        return _from_file(path.resolve()) if is_file else importlib.import_module(name)
    except (Exception, SystemExit) as error:
        raise LoadError(f"{name} cannot be imported: {words_of(error)}") from error


def _from_file(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise LoadError(f"{path}: not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module
