# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Builds Hadamard matrices: square matrices of +1 and -1 whose rows are orthogonal to each other.

With the columns as settings and the rows as arms, each setting is present in half of the arms, and each pair of
settings is in balance. So the effect of every setting is estimated from every arm.

Source: Paley, "On orthogonal matrices" (1933), both constructions; Sylvester's doubling.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    Matrix = list[list[int]]


def build_hadamard_matrix(least_order: int) -> Matrix:
    """Return a Hadamard matrix with at least ``least_order`` rows, the smallest that these constructions give.

    The first column has only +1.
    """
    order = max(1, least_order)
    while True:
        matrix = _build_matrix_of_order(order)
        if matrix:
            return [[row[0] * sign for sign in row] for row in matrix]
        order += 1


def _build_matrix_of_order(order: int) -> Matrix | None:
    """Return a Hadamard matrix with ``order`` rows, None where no construction gives one."""
    if order == 1:
        return [[1]]
    if order > 2 and order % 4:
        return None
    half = _build_matrix_of_order(order // 2)
    if half:
        return [row + row for row in half] + [row + [-sign for sign in row] for row in half]
    if _is_prime(order - 1):
        return _build_first_paley_matrix(order - 1)
    if order // 2 % 4 == 2 and _is_prime(order // 2 - 1):
        return _build_second_paley_matrix(order // 2 - 1)
    return None


def _build_first_paley_matrix(prime: int) -> Matrix:
    """Return the matrix of order ``prime`` + 1; ``prime`` is 3 modulo 4."""
    bordered = [[0, *([1] * prime)], *([-1, *row] for row in _legendre_symbols(prime))]
    return [[sign + (at == place) for at, sign in enumerate(row)] for place, row in enumerate(bordered)]


def _build_second_paley_matrix(prime: int) -> Matrix:
    """Return the matrix of order 2 * (``prime`` + 1); ``prime`` is 1 modulo 4."""
    bordered = [[0, *([1] * prime)], *([1, *row] for row in _legendre_symbols(prime))]
    upper, lower = [], []
    for row in bordered:
        blocks = [((1, -1), (-1, -1)) if not sign else ((sign, sign), (sign, -sign)) for sign in row]
        upper.append([sign for block in blocks for sign in block[0]])
        lower.append([sign for block in blocks for sign in block[1]])
    return upper + lower


def _legendre_symbols(prime: int) -> Matrix:
    """Return for each pair of residues whether their difference is a square: 1, or -1; 0 for equal residues."""
    squares = {value * value % prime for value in range(1, prime)}
    symbols = [0, *(1 if value in squares else -1 for value in range(1, prime))]
    return [[symbols[(place - at) % prime] for at in range(prime)] for place in range(prime)]


def _is_prime(number: int) -> bool:
    return number > 1 and all(number % divisor for divisor in range(2, int(number**0.5) + 1))
