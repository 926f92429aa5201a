"""Expressions in the hands of NumPy: its functions of single values make expressions, its others take the values."""

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from splay.frames.base import Base, of

if TYPE_CHECKING:
    from splay.frames.expr import Expr

_METHODS = {
    "absolute": "abs", "sqrt": "sqrt", "exp": "exp", "log": "log", "log10": "log10", "floor": "floor", "ceil": "ceil", "sign": "sign",
    "isnan": "is_nan", "isfinite": "is_finite",
}  # fmt: skip
"""Methods of expressions by NumPy's names of functions."""
_OPERATORS: dict[str, Callable[..., Any]] = {
    "negative": operator.neg, "positive": lambda value: value, "invert": operator.invert, "logical_not": operator.invert,
    "add": operator.add, "subtract": operator.sub, "multiply": operator.mul, "divide": operator.truediv, "true_divide": operator.truediv,
    "floor_divide": operator.floordiv, "remainder": operator.mod, "power": operator.pow, "float_power": operator.pow,
    "equal": operator.eq, "not_equal": operator.ne, "less": operator.lt, "less_equal": operator.le, "greater": operator.gt,
    "greater_equal": operator.ge, "bitwise_and": operator.and_, "logical_and": operator.and_, "bitwise_or": operator.or_,
    "logical_or": operator.or_,
}  # fmt: skip
"""Python's operators by NumPy's names of functions."""
_FUNCTIONS = {
    "sin": "sin", "cos": "cos", "tan": "tan", "arcsin": "asin", "arccos": "acos",
    "arctan": "atan", "sinh": "sinh", "cosh": "cosh", "tanh": "tanh", "cbrt": "cbrt", "log2": "log2", "trunc": "trunc",
    "degrees": "degrees", "radians": "radians",
}  # fmt: skip
"""Functions of SQL by NumPy's names."""


class Arrays(Base):
    """The part of :class:`splay.Expr` that NumPy looks for."""

    def to_numpy(self) -> Any:
        raise NotImplementedError

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        """All values, where the expression was made of a frame's columns.

        >>> import numpy
        >>> numpy.asarray(trade.price).shape
        (400,)
        """
        values = self.to_numpy()
        return values if dtype is None else values.astype(dtype)

    def __array_ufunc__(self, function: Any, method: str, *inputs: Any, **options: Any) -> "Expr":
        """An expression of it by a function of single values.

        >>> import numpy
        >>> numpy.log(trade.price) * numpy.float64(2)
        ln(price) * 2.0
        """
        from splay.frames.functions import call

        operands, name = [of(one) for one in inputs], function.__name__
        if method == "__call__" and not options:
            if name in _METHODS:
                return getattr(operands[0], _METHODS[name])()  # type: ignore[no-any-return]
            if name in _OPERATORS:
                return _OPERATORS[name](*operands)  # type: ignore[no-any-return]
            if name in _FUNCTIONS:
                return call(_FUNCTIONS[name], *operands)
        raise TypeError(
            f"an expression can't be computed by numpy.{name}: take the values, frame['price'].to_numpy(), or call a function of SQL by splay.call"
        )

    def __array_function__(self, function: Callable[..., Any], types: Any, arguments: Sequence[Any], options: Mapping[str, Any]) -> Any:
        """What a function of NumPy makes of all values.

        >>> import numpy
        >>> float(numpy.max(trade["size"]))
        498.0
        """
        return function(*_values_of(tuple(arguments)), **{name: _values_of(option) for name, option in options.items()})


def _values_of(argument: Any) -> Any:
    """An argument with values in the place of expressions."""
    if isinstance(argument, Arrays):
        return argument.to_numpy()
    if isinstance(argument, (list, tuple)):
        return type(argument)(_values_of(one) for one in argument)
    return argument
