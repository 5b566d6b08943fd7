# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What `make bench-llama` asks: three kinds of work that differ in how much of the answer stands in the prompt.

Nothing of a prose answer does. Nearly all of an edited function does, and most of a summary that quotes. A small model
often does something else than it was asked to, so those answers are begun for it, as editors that ask a model do.
"""

from __future__ import annotations

from typing import NamedTuple


class Prompt(NamedTuple):
    """What the user says, and how the answer begins."""

    asked: str
    begun: str = ""


def _edit(what: str, code: str, change: str) -> Prompt:
    asked = (
        f"Here is a Python {what}.\n\n```python\n{code}```\n\n{change} Answer with the whole {what} and nothing else."
    )
    return Prompt(asked, f"Here is the whole {what} with this change:\n\n```python\n")


def _summary(text: str) -> Prompt:
    asked = f"Here is a text.\n\n{text}\n\nWhich are its key sentences? Quote them word for word."
    return Prompt(asked, 'These are its key sentences, word for word:\n\n"')


_ORDERS = '''def total_of_orders(orders, rates, currency):
    """Return the sum of all paid orders in one currency, and the orders that could not be converted."""
    total = 0.0
    unknown = []
    for order in orders:
        if order.status != "paid":
            continue
        rate = rates.get((order.currency, currency))
        if rate is None:
            unknown.append(order)
            continue
        total += order.amount * rate
    return round(total, 2), unknown
'''
_ACCOUNT = '''class Account:
    """An account with a balance in cents."""

    def __init__(self, owner, balance=0):
        self.owner = owner
        self.balance = balance

    def deposit(self, amount):
        """Add an amount to the balance."""
        if amount <= 0:
            raise ValueError("The amount must be positive.")
        self.balance += amount
        return self.balance

    def withdraw(self, amount):
        """Take an amount from the balance."""
        if amount <= 0:
            raise ValueError("The amount must be positive.")
        if amount > self.balance:
            raise ValueError("The balance is too small.")
        self.balance -= amount
        return self.balance
'''
_CANAL = """\
The canal between the two lakes was opened in the spring of 1874. It took nine years to dig, and more than two
thousand people worked on it. Before the canal, a barge with grain had to go around the whole peninsula, which took
eleven days in good weather. With the canal the same trip took two days. The towns on the western shore grew quickly,
because grain could now be sold there at the price of the city. The towns on the peninsula lost most of their trade,
and by 1900 half of the inns were closed. The railway came in 1911 and took the grain away from the canal. Today the
canal carries no grain at all. Small boats use it in summer, and the water board keeps its level for the fields on
both sides."""
_LIGHTHOUSE = """\
The lighthouse stands on a rock two miles from the shore. It was built in 1848 from blocks of grey granite. The first
lamp burned whale oil, and two keepers had to fill it every four hours. In 1903 the oil lamp was replaced by a gas
lamp. In 1954 the gas lamp was replaced by an electric one. The last keeper left the rock in 1987. Since then the lamp
is switched on and off by a computer on the shore. A boat brings a technician to the rock twice a year."""

PROMPTS = {
    "prose": (
        Prompt(
            "Describe a small harbour town in the early morning, before the shops open, in a few paragraphs of prose."
        ),
        Prompt(
            "Explain to somebody with a new garden how compost is made, why it helps the soil, and what can go wrong."
        ),
    ),
    "code_edit": (
        _edit("function", _ORDERS, "Rename the variable unknown to unconverted, and change nothing else."),
        _edit("class", _ACCOUNT, "Change the word cents to euros, and change nothing else."),
    ),
    "summary": (_summary(_CANAL), _summary(_LIGHTHOUSE)),
}
