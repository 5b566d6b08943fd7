# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What `make bench-llama` asks: three kinds of work that differ in how much of the answer stands in the prompt.

Nothing of a prose answer does. Nearly all of an edited function does, and most of a summary that quotes.
"""

from __future__ import annotations

_EDIT = (
    "Here is a Python function.\n\n```python\n{code}```\n\n{change} Answer with the whole function and nothing else."
)
_SUMMARY = (
    "Here is a text.\n\n{text}\n\nSummarise it. Quote its key sentences word for word, one in each line, and add "
    "nothing of your own."
)

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
_READINGS = '''def read_measurements(path, separator=";"):
    """Read the lines of a file of measurements, and return a list for each sensor by its name."""
    sensors = {}
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, start=1):
            line = line.strip()
            if not line or line.startswith("#"):
                continue
            name, moment, value = line.split(separator)
            try:
                sensors.setdefault(name, []).append((moment, float(value)))
            except ValueError:
                print(f"line {number}: {value} is no number")
    return sensors
'''
_CANAL = """\
The canal between the two lakes was opened in the spring of 1874. It took nine years to dig, and more than two
thousand people worked on it. Before the canal, a barge with grain had to go around the whole peninsula, which took
eleven days in good weather. With the canal the same trip took two days. The towns on the western shore grew quickly,
because grain could now be sold there at the price of the city. The towns on the peninsula lost most of their trade,
and by 1900 half of the inns were closed. The railway came in 1911 and took the grain away from the canal. Today the
canal carries no grain at all. Small boats use it in summer, and the water board keeps its level for the fields on
both sides."""
_BATTERY = """\
The team measured how much charge the cells lose while they lie on a shelf. They kept two hundred cells at four
temperatures for eighteen months. At five degrees the cells lost two percent of their charge in a year. At twenty-five
degrees they lost five percent, and at forty-five degrees nineteen percent. The loss was fastest in the first month
and became slower after that. Cells that were stored full lost twice as much as cells that were stored half full. The
team found no difference between the two makers. It recommends to store cells half full and below fifteen degrees. It
also says that eighteen months are too short to tell how the cells behave after five years."""

PROMPTS = {
    "prose": (
        "Describe a small harbour town in the early morning, before the shops open, in a few paragraphs of prose.",
        "Explain to somebody with a new garden how compost is made, why it helps the soil, and what can go wrong.",
    ),
    "code_edit": (
        _EDIT.format(code=_ORDERS, change="Rename the variable unknown to unconverted, and change nothing else."),
        _EDIT.format(code=_READINGS, change="Let it skip lines that begin with // too, and change nothing else."),
    ),
    "summary": (_SUMMARY.format(text=_CANAL), _SUMMARY.format(text=_BATTERY)),
}
