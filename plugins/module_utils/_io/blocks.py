# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""contextmanager, suppress and nullcontext of contextlib, without what its import brings: collections and functools.

Those took a sixth of the time in which the host tool starts and reads the topology.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from contextlib import contextmanager, nullcontext, suppress
else:

    class _GeneratorBlock:
        """A block whose begin and end are the two halves of a generator with a single yield."""

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
        """Return a function whose result, in a with statement, runs a generator up to its yield and after the block."""

        def make_block(*values, **named):
            return _GeneratorBlock(function(*values, **named))

        make_block.__doc__ = function.__doc__
        return make_block

    class suppress:
        """A block that ends quietly where one of these errors is raised in it."""

        def __init__(self, *errors):
            self.errors = errors

        def __enter__(self):
            return None

        def __exit__(self, kind, error, trace):
            return kind is not None and issubclass(kind, self.errors)

    class nullcontext(suppress):
        """A block that begins and ends with nothing."""


__all__ = ["contextmanager", "nullcontext", "suppress"]
