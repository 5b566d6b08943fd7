# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Small versions of contextmanager, suppress and nullcontext of contextlib, which are faster to import.

contextlib imports collections and functools, which took a sixth of the time of a start of the host tool.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from contextlib import contextmanager, nullcontext, suppress
else:

    class _GeneratorBlock:
        """A context manager that runs a generator to its only yield at the begin, and to its end at the end."""

        def __init__(self, generator):
            self.generator = generator

        def __enter__(self):
            return next(self.generator)

        def __exit__(self, kind, error, trace):
            if error is None:
                next(self.generator, None)
                return False
            try:
                self.generator.throw(error)
            except StopIteration as ended:
                return ended is not error
            except BaseException as raised:
                if raised is error:
                    return False
                raise
            raise RuntimeError("the generator of a block has a second yield")

    def contextmanager(function):
        """Return a function that makes a context manager from a function that returns a generator with one yield."""

        def make_block(*values, **named):
            return _GeneratorBlock(function(*values, **named))

        make_block.__doc__ = function.__doc__
        return make_block

    class suppress:
        """A context manager that suppresses these errors of its block."""

        def __init__(self, *errors):
            self.errors = errors

        def __enter__(self):
            return None

        def __exit__(self, kind, error, trace):
            return kind is not None and issubclass(kind, self.errors)

    class nullcontext(suppress):
        """A context manager that does nothing."""


__all__ = ["contextmanager", "nullcontext", "suppress"]
