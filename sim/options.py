"""Functions whose many options are one frozen dataclass inside, and keywords for who calls them."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, overload

Keywords = ParamSpec("Keywords")
Options = TypeVar("Options")
First = TypeVar("First")
Second = TypeVar("Second")
Result = TypeVar("Result")


class by_keywords(Generic[Keywords, Options]):
    """Make a function that takes a dataclass of options as its last parameter one that takes the dataclass's
    fields as keywords; its signature shows them, with their defaults.

    Raises:
        TypeError: when it is called, an option that is not known.
    """

    def __init__(self, options: Callable[Keywords, Options]) -> None:
        self._options = options

    @overload
    def __call__(self, function: Callable[[Options], Result]) -> Callable[Keywords, Result]: ...

    @overload
    def __call__(
        self, function: Callable[[First, Options], Result]
    ) -> Callable[Concatenate[First, Keywords], Result]: ...

    @overload
    def __call__(
        self, function: Callable[[First, Second, Options], Result]
    ) -> Callable[Concatenate[First, Second, Keywords], Result]: ...

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        own = inspect.signature(function, eval_str=True)
        *required, _ = own.parameters.values()
        given = inspect.signature(self._options, eval_str=True).parameters.values()
        signature = own.replace(
            parameters=[*required, *(p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in given)]
        )

        @functools.wraps(function)
        def called(*positional: Any, **keywords: Any) -> Any:
            try:
                bound = signature.bind(*positional, **keywords).arguments
            except TypeError as error:
                raise TypeError(f"{function.__name__}() {error}") from None
            placed = [bound.pop(parameter.name) for parameter in required]
            make: Callable[..., Options] = self._options
            return function(*placed, make(**bound))

        called.__signature__ = signature  # type: ignore[attr-defined]
        return called
