"""Beam looks at functions and flags anew for each step of each pipeline: here it does so once.

Building a small pipeline costs more than running it: most of it goes into the signatures of the
same functions and methods, their source, parsers of the same flags, and the place in the code of
each type hint, which Beam adds to errors. Tests build thousands.
"""

from __future__ import annotations

import bz2
import sys
from functools import cache, lru_cache, wraps
from types import CodeType, MethodType, SimpleNamespace
from typing import Any
from weakref import WeakKeyDictionary

from apache_beam.internal import cloudpickle_pickler
from apache_beam.options.pipeline_options import PipelineOptions, StandardOptions
from apache_beam.transforms import core, userstate
from apache_beam.typehints.decorators import IOTypeHints

from transforms.beam_worker.runners import IN_PROCESS_RUNNER

PICKLES = 1000
"""Kept as they are and compressed: some megabytes."""


def remember() -> None:
    """Let Beam keep what depends on a function, a class, or on flags and their class alone."""
    core.get_function_args_defaults = _of_functions(core.get_function_args_defaults)
    core._check_fn_use_yield_and_return = _of_code(core._check_fn_use_yield_and_return)
    userstate.get_dofn_specs = _of_classes(userstate.get_dofn_specs)
    IOTypeHints.from_callable = _of_methods(  # type: ignore[method-assign]
        IOTypeHints.from_callable
    )
    IOTypeHints._make_origin = lambda *_, **__: []  # type: ignore[method-assign]
    # Most of what a pipeline pickles is pickled by the next one too.
    cloudpickle_pickler.bz2 = SimpleNamespace(  # type: ignore[assignment]
        compress=lru_cache(PICKLES)(bz2.compress), decompress=lru_cache(PICKLES)(bz2.decompress)
    )
    PipelineOptions.__init__ = _of_flags(PipelineOptions.__init__)  # type: ignore[method-assign]
    PipelineOptions.get_all_options = _told_once(  # type: ignore[method-assign]
        PipelineOptions.get_all_options
    )
    PipelineOptions._visible_option_list = (  # type: ignore[method-assign]
        lambda self: sorted(vars(self._visible_options))
    )
    # Beam's own choice looks on the network for the binary of another runner, which would run them.
    StandardOptions.DEFAULT_RUNNER = IN_PROCESS_RUNNER
    # Beam's YAML imports jsonschema, and that, where it is there, 38 parsers of web addresses that
    # no schema here asks for: they take a second to build.
    sys.modules["rfc3987_syntax"] = None  # type: ignore[assignment]
    # Each pipeline looks for it, and there is none.
    sys.modules["IPython"] = None  # type: ignore[assignment]


def _told_once(look: Any) -> Any:
    """Let a pipeline warn of the same flags once: it looks at all options for nothing else."""
    told: set[str] = set()

    @wraps(look)
    def remembered(self: PipelineOptions, *given: Any, **named: Any) -> dict[str, Any]:
        if named.get("display_warnings"):
            flags = str(self._flags)
            if flags in told:
                return {}
            told.add(flags)
        return look(self, *given, **named)  # type: ignore[no-any-return]

    return remembered


def _of_functions(look: Any) -> Any:
    @cache
    def of_method(function: Any, owner: type) -> Any:
        return look(MethodType(function, owner))

    @wraps(look)
    def remembered(f: Any) -> tuple[list[str], list[Any]]:
        if not isinstance(f, MethodType):
            return look(f)  # type: ignore[no-any-return]
        names, defaults = of_method(f.__func__, object)
        return list(names), list(defaults)

    return remembered


def _of_methods(look: Any) -> Any:
    @cache
    def of_method(function: Any, owner: type) -> Any:
        return look(MethodType(function, owner))

    @wraps(look)
    def remembered(fn: Any) -> Any:
        return of_method(fn.__func__, object) if isinstance(fn, MethodType) else look(fn)

    return remembered


def _of_code(look: Any) -> Any:
    known: dict[CodeType, Any] = {}

    @wraps(look)
    def remembered(fn: Any) -> Any:
        code = getattr(fn, "__code__", None)
        if code is None:
            return look(fn)
        if code not in known:
            known[code] = look(fn)
        return known[code]

    return remembered


def _of_classes(look: Any) -> Any:
    known: WeakKeyDictionary[type, tuple[set[Any], set[Any]]] = WeakKeyDictionary()

    @wraps(look)
    def remembered(dofn: core.DoFn) -> tuple[set[Any], set[Any]]:
        owner = type(dofn)
        if any(isinstance(value, MethodType) for value in vars(dofn).values()):
            return look(dofn)  # type: ignore[no-any-return]
        if owner not in known:
            known[owner] = look(dofn)
        states, timers = known[owner]
        return set(states), set(timers)

    return remembered


def _of_flags(parse: Any) -> Any:
    parsed: dict[Any, tuple[Any, dict[str, Any]]] = {}

    @wraps(parse)
    def remembered(self: PipelineOptions, flags: Any = None, **given: Any) -> None:
        if flags is None or given:
            parse(self, flags, **given)
            return
        key = type(self), tuple(flags)
        if key not in parsed:
            parse(self, flags)
            parsed[key] = self._visible_options, _copied(self._all_options)
        self._flags = flags
        self._visible_options, options = parsed[key]
        self._all_options = _copied(options)

    return remembered


def _copied(options: dict[str, Any]) -> dict[str, Any]:
    """Options as an object's own: lists are added to."""
    return {k: list(v) if isinstance(v, list) else v for k, v in options.items()}
