"""A job's arguments and result as JSON text, typed by the function's own hints.

Every store, the memory store included, is handed this text, so what works in a test works in
production. See ``codec`` for what round-trips and why the rest is refused.
"""

from __future__ import annotations

import inspect
import json
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import SimpleNamespace
from typing import Any, Final

from onejob.core.codec import codec
from onejob.core.codec_plain import PLAIN, Codec, canonical_json
from onejob.core.fingerprint import fingerprint
from onejob.core.scalars import Unfit
from onejob.errors import UsageError

__all__ = ["BATCH_BYTES_MAX", "BATCH_MAX", "PAYLOAD_BYTES_MAX", "Signature", "fingerprint"]

PAYLOAD_BYTES_MAX: Final = 1_000_000
"""Of UTF-8. Beyond it, store the data and send its name."""

BATCH_MAX: Final = 1_000
"""Runs that are made together."""

BATCH_BYTES_MAX: Final = 16 * PAYLOAD_BYTES_MAX
"""Of their arguments, where a thousand of them would be more than a statement can hold."""

_RUN_NAMES: Final = frozenset({"Run", "AsyncRun"})
_VARIADIC: Final = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


@dataclass(frozen=True, eq=False)
class Signature:
    """What a job's function takes and returns, without the run that the worker passes itself.

    Hints are resolved when they are first needed, since a function may be decorated before the
    classes it names exist; ``check`` resolves them now. All errors are UsageError and name the job.
    """

    job: str
    takes_run: bool
    """Its first parameter is the run."""
    is_async: bool
    _function: Callable[..., Any]
    _signature: inspect.Signature

    @classmethod
    def of(
        cls,
        function: Callable[..., Any],
        *,
        name: str | None = None,
        run_types: Sequence[type] = (),
    ) -> Signature:
        """Read a function's signature. ``run_types`` are the classes that mean "the run"."""
        job = name or str(getattr(function, "__name__", type(function).__name__))
        try:
            whole = inspect.signature(function)
        except (TypeError, ValueError) as error:
            raise UsageError(
                f"{job}: a job must be a function with a signature ({error}). Wrap it in a def."
            ) from error
        parameters = list(whole.parameters.values())
        takes_run = bool(parameters) and _is_run(function, parameters[0], run_types)
        return cls(
            job=job,
            takes_run=takes_run,
            is_async=inspect.iscoroutinefunction(inspect.unwrap(function)),
            _function=function,
            _signature=whole.replace(parameters=parameters[1:] if takes_run else parameters),
        )

    @property
    def names(self) -> tuple[str, ...]:
        """Return its parameters, the run left out."""
        return tuple(self._signature.parameters)

    def check(self) -> None:
        """Resolve every hint now; UsageError for one that has no meaning, or no JSON form."""
        _ = self._codecs, self._result

    def bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, object]:
        """Match arguments to parameters, as the call would; defaults stay out.

        A default is the code's to give when the run starts, not the caller's to freeze.
        """
        if not args and self._by_name and self._required <= kwargs.keys() <= self._names:
            return dict(kwargs)
        try:
            return dict(self._signature.bind(*args, **kwargs).arguments)
        except TypeError as error:
            raise UsageError(
                f"{self.job}: {error}. It takes {self.job}{self._shown_parameters()}."
            ) from None

    def spread(self, bound: Mapping[str, object]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Turn bound arguments back into the (args, kwargs) of a call."""
        if self._by_name:
            return (), dict(bound)
        ordered = {n: bound[n] for n in self._signature.parameters if n in bound}
        call = inspect.BoundArguments(self._signature, typing.cast("Any", ordered))
        return call.args, call.kwargs

    def encode(self, bound: Mapping[str, object], *, limit: int = PAYLOAD_BYTES_MAX) -> str:
        """Write bound arguments as canonical JSON: sorted keys, no spaces, UTF-8."""
        return self._dump(self._encoded(bound), "args", limit)

    def encode_many(
        self, batch: Sequence[Mapping[str, object]], *, limit: int = PAYLOAD_BYTES_MAX
    ) -> list[str]:
        """Write many bound arguments as JSON lists, each item as :meth:`encode` writes it."""
        lists: list[str] = []
        for start in range(0, len(batch), BATCH_MAX):
            part = batch[start : start + BATCH_MAX]
            encoded = [self._encoded(bound) for bound in part]
            try:
                text = canonical_json(encoded)
                if len(text.encode()) <= limit:
                    lists.append(text)
                    continue
            except (UnicodeEncodeError, RecursionError):
                pass  # some item is at fault: one by one, it is named
            lists += _lists([self._dump(one, "args", limit) for one in encoded])
        return lists

    def decode(self, text: str) -> dict[str, object]:
        """Read arguments by the hints; UsageError when the text does not fit them."""
        data = self._load(text, "args")
        if not isinstance(data, dict):
            raise UsageError(f"{self.job}: args must be a JSON object. Give one: {{}}.")
        codecs = self._codecs
        for name in data:
            if name not in codecs:
                raise UsageError(
                    f"{self.job}: args.{name}: no such parameter. It takes "
                    f"{self.job}{self._shown_parameters()}."
                )
        for name in codecs if not self._required <= data.keys() else ():
            if name in self._required and name not in data:
                raise UsageError(f"{self.job}: args.{name} is missing. Give it, or a default.")
        try:
            return {name: codecs[name].decode(value) for name, value in data.items()}
        except (Unfit, RecursionError):
            return {n: self._at(f"args.{n}", codecs[n].decode, v) for n, v in data.items()}

    def encode_result(self, value: object, *, limit: int = PAYLOAD_BYTES_MAX) -> str | None:
        """Write what the function returned; None for None."""
        if value is None:
            return None
        return self._dump(self._at("result", self._result.encode, value), "result", limit)

    def decode_result(self, text: str | None) -> object:
        """Read what ``encode_result`` wrote."""
        if text is None:
            return None
        return self._at("result", self._result.decode, self._load(text, "result"))

    def _encoded(self, bound: Mapping[str, object]) -> dict[str, Any]:
        codecs = self._codecs
        try:
            return {name: codecs[name].encode(value) for name, value in bound.items()}
        except (Unfit, RecursionError):
            # Once more, to say which.
            return {n: self._at(f"args.{n}", codecs[n].encode, v) for n, v in bound.items()}

    @cached_property
    def _names(self) -> frozenset[str]:
        return frozenset(self._signature.parameters)

    @cached_property
    def _required(self) -> frozenset[str]:
        return frozenset(
            name
            for name, parameter in self._signature.parameters.items()
            if parameter.default is parameter.empty and parameter.kind not in _VARIADIC
        )

    @cached_property
    def _by_name(self) -> bool:
        """Whether every argument can be passed by its name."""
        named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
        return all(parameter.kind in named for parameter in self._signature.parameters.values())

    @cached_property
    def _codecs(self) -> dict[str, Codec]:
        return {
            name: self._codec_of(f"args.{name}", parameter.annotation, parameter.kind)
            for name, parameter in self._signature.parameters.items()
        }

    @cached_property
    def _result(self) -> Codec:
        annotation = self._signature.return_annotation
        return self._codec_of("result", annotation, inspect.Parameter.POSITIONAL_OR_KEYWORD)

    def _codec_of(self, where: str, annotation: Any, kind: Any) -> Codec:
        if annotation is inspect.Parameter.empty:
            hint: Any = Any
        else:
            try:
                hint = _resolve(self._function, annotation)
            except (NameError, SyntaxError, TypeError, AttributeError) as error:
                raise UsageError(
                    f"{self.job}: {where}: the hint {annotation!r} cannot be resolved ({error}). "
                    "Import its names at run time, at the top of the module."
                ) from error
        if kind is inspect.Parameter.VAR_POSITIONAL:
            hint = tuple[hint, ...]
        elif kind is inspect.Parameter.VAR_KEYWORD:
            hint = dict[str, hint]
        if hint is Any:
            return PLAIN
        return typing.cast("Codec", self._at(where, codec, hint))

    def _at(self, where: str, function: Callable[[Any], Any], value: object) -> Any:
        try:
            return function(value)
        except Unfit as unfit:
            path = where + "".join(reversed(unfit.path))
            raise UsageError(f"{self.job}: {path}: {unfit.reason}.") from None
        except RecursionError:
            raise UsageError(
                f"{self.job}: {where}: nested too deeply, or it contains itself. Send it flat."
            ) from None

    def _dump(self, encoded: Any, where: str, limit: int) -> str:
        try:
            text = canonical_json(encoded)
            size = len(text) if text.isascii() else len(text.encode())
        except UnicodeEncodeError:
            raise UsageError(
                f"{self.job}: {where}: a text has a lone surrogate, which UTF-8 cannot hold. "
                "Decode it properly, or send bytes."
            ) from None
        except RecursionError:
            raise UsageError(f"{self.job}: {where}: nested too deeply. Send it flat.") from None
        if size > limit:
            raise UsageError(
                f"{self.job}: {where} is {size:,} bytes of JSON, the limit is {limit:,}. "
                "Store the data where it belongs and send its name."
            )
        return text

    def _load(self, text: str, where: str) -> Any:
        try:
            return _read_json(text)
        except (ValueError, RecursionError) as error:
            raise UsageError(f"{self.job}: {where} is not JSON: {error}.") from None

    def _shown_parameters(self) -> str:
        return str(self._signature.replace(return_annotation=inspect.Signature.empty))


def _lists(texts: Sequence[str]) -> list[str]:
    """Join JSON texts to as few lists as their sizes allow."""
    lists: list[str] = []
    part: list[str] = []
    size = 0
    for text in texts:
        if part and size + len(text) > BATCH_BYTES_MAX:
            lists.append(f"[{','.join(part)}]")
            part, size = [], 0
        part.append(text)
        size += len(text)
    return [*lists, f"[{','.join(part)}]"]


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


_read_json: Final = json.JSONDecoder(parse_constant=_refuse_constant).decode


def _is_run(
    function: Callable[..., Any], first: inspect.Parameter, run_types: Sequence[type]
) -> bool:
    if first.kind in _VARIADIC or first.kind is inspect.Parameter.KEYWORD_ONLY:
        return False
    annotation = first.annotation
    if annotation is inspect.Parameter.empty:
        return first.name == "run"
    try:
        hint = _resolve(function, annotation)
    except (NameError, SyntaxError, TypeError, AttributeError):
        # Imported for type checkers only: its name is all there is.
        names = _RUN_NAMES | {cls.__name__ for cls in run_types}
        return str(annotation).strip("'\"").rpartition(".")[2] in names
    if run_types:
        return hint in run_types
    return isinstance(hint, type) and hint.__name__ in _RUN_NAMES


def _resolve(function: Callable[..., Any], annotation: Any) -> Any:
    # One hint at a time, so that one that cannot be resolved does not spoil the others.
    inner = inspect.unwrap(function)
    names = getattr(inner, "__globals__", {})
    holder = SimpleNamespace(__annotations__={"hint": annotation})
    return typing.get_type_hints(holder, globalns=names)["hint"]
