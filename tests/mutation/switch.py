"""Which guards are off in this process, which made a difference, and the import of instrumented modules."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import CodeType, ModuleType
from typing import Any

from . import guards

off: frozenset[str] = frozenset()
asked: set[str] = set()


class _Nothing:
    """What equals nothing but itself, and a block that guards nothing."""

    def block(self) -> AbstractContextManager[None]:
        return nullcontext()


def removed(ident: str) -> bool:
    """Tell whether a guard is off, and remember that it was come upon."""
    asked.add(ident)
    return ident in off


_PLAIN = (str, int, list, tuple, dict, set, frozenset, type(None), re.Match)


def held(ident: str, instead: bool, value: Any) -> Any:
    """Return what a condition is, or what it is without its guard. Remember it where the two differ.

    Of what may ask a database for its truth it is taken that they do.
    """
    if ident not in asked and (bool(value) is not instead if isinstance(value, _PLAIN) else True):
        asked.add(ident)
    return instead if ident in off else value


def turn_off(*idents: str) -> None:
    """Take guards away in this process. Raises LookupError for an id that no guard has."""
    global off
    known = {each.id for each in guards.all_guards()}
    unknown = [each for each in idents if each not in known]
    if unknown:
        raise LookupError(f"There is no such guard: {unknown[0]}")
    off = frozenset(idents)


class _Loader(SourceFileLoader):
    def get_code(self, fullname: str) -> CodeType:
        tree = guards.instrument(_path_of(fullname), self.get_data(self.path).decode("utf-8"))
        return compile(tree, self.path, "exec", dont_inherit=True)

    def exec_module(self, module: ModuleType) -> None:
        vars(module)[guards.SWITCH] = removed
        vars(module)[guards.HELD] = held
        vars(module)[guards.NOTHING] = _Nothing()
        super().exec_module(module)


class _Finder(MetaPathFinder):
    def find_spec(self, fullname: str, path: Sequence[str] | None, target: Any = None) -> ModuleSpec | None:
        if fullname not in _MODULES:
            return None
        spec = PathFinder.find_spec(fullname, path)
        if spec is not None and isinstance(spec.loader, SourceFileLoader):
            spec.loader = _Loader(fullname, spec.loader.path)
        return spec


def _module_of(path: str) -> str:
    return "django_copilot." + path.removesuffix(".py").replace("/", ".")


def _path_of(module: str) -> str:
    return module.removeprefix("django_copilot.").replace(".", "/") + ".py"


_MODULES = {_module_of(path) for path in guards.FILES}


def install() -> None:
    """Instrument the modules with guards as they are imported. Raises RuntimeError when one is loaded already."""
    if any(isinstance(each, _Finder) for each in sys.meta_path):
        return
    loaded = sorted(_MODULES & set(sys.modules))
    if loaded:
        raise RuntimeError(f"{loaded[0]} was imported before it could be instrumented.")
    sys.meta_path.insert(0, _Finder())
