# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The built-in prompts by kind; the kinds differ in how much of the answer repeats the prompt.

An answer in prose repeats nothing of its prompt. An edited function repeats nearly all code of the prompt, and a
summary with quotes repeats most of the article. So speculation from n-grams can draft few tokens in the first kind, and
many in the other two. The texts are sent to ``/completion`` without a chat template. Each text ends within the answer,
so that a small model continues the answer too. A repeated answer is longer than the default number of requested tokens.
"""

from __future__ import annotations

_HARBOUR = """\
The following is the first chapter of a travel book about small harbours in the north.

Chapter 1. The ferry

We came in on the early ferry, when the lamps on the pier were still lit and nobody was about except a man who mended
nets under the roof of the fish market. He looked up, nodded, and went on with his work. The inn had no bell. We put our
bags on the bench beside the door, sat down next to them, and watched how the town woke up. First"""
_COMPOST = """\
A letter to somebody who has a garden for the first time.

Dear Anna,

you asked me why my beans grow taller than yours, although we bought the seeds on the same day from the same shop. The
secret is behind the shed, and it smells a little. I mean my heap of compost. Everybody thinks that it is just rubbish
that rots, but a good heap is more like a slow oven, and it has to be fed and turned like one. Let me explain from the
beginning how I build mine, why it helps the soil, and what went wrong in my first three years. You start with"""
_BRIDGE = """\
Minutes of a talk given to pupils by an engineer who builds bridges.

Good morning. My job is to make sure that a bridge does not surprise anybody. People believe that a bridge is strong
because it is stiff, but the opposite is nearer to the truth. A bridge moves all day long. It grows in the sun, it sinks
a little under every lorry, and it swings in the wind. If we forbade it to move, it would crack within a year. I want to
tell you about the bridge over our own river, which I have looked after for twenty years, and about the one night in
which I was afraid for it. That night"""

_INVOICES = '''\
def open_invoices(invoices, today, grace_days):
    """Return the invoices that are overdue, by customer, and the sum of each customer."""
    overdue = {}
    totals = {}
    for invoice in invoices:
        if invoice.paid or invoice.cancelled:
            continue
        days_late = (today - invoice.due_date).days - grace_days
        if days_late <= 0:
            continue
        customer = invoice.customer_name.strip().lower()
        overdue.setdefault(customer, []).append((days_late, invoice.number))
        totals[customer] = totals.get(customer, 0) + invoice.amount_in_cents
    for customer in overdue:
        overdue[customer].sort(reverse=True)
    return overdue, totals
'''
_SHELF = '''\
class Shelf:
    """A shelf of a warehouse that holds boxes up to a weight."""

    def __init__(self, name, limit_kg):
        self.name = name
        self.limit_kg = limit_kg
        self.boxes = []

    def weight(self):
        """Return the weight of all boxes on the shelf."""
        return sum(box.weight_kg for box in self.boxes)

    def put(self, box):
        """Put a box on the shelf."""
        if self.weight() + box.weight_kg > self.limit_kg:
            raise ValueError(f"Shelf {self.name} cannot hold another {box.weight_kg} kg.")
        self.boxes.append(box)

    def take(self, number):
        """Take the box with this number off the shelf."""
        for box in self.boxes:
            if box.number == number:
                self.boxes.remove(box)
                return box
        raise KeyError(f"Shelf {self.name} has no box {number}.")
'''
_TIMETABLE = '''\
def next_departures(timetable, station, now, count):
    """Return the next departures from a station, each with its line, destination and minutes to wait."""
    found = []
    for line in timetable.lines:
        if station not in line.stations:
            continue
        position = line.stations.index(station)
        offset = sum(line.minutes_between[:position])
        for start in line.starts:
            departure = start + offset
            if departure < now:
                continue
            found.append((departure - now, line.name, line.stations[-1]))
    found.sort()
    return [
        {"line": name, "destination": destination, "minutes": minutes}
        for minutes, name, destination in found[:count]
    ]
'''

_SALT = """\
Salt was made in the valley for about six hundred years. The brine came out of a spring at the foot of the hill, and men
carried it in buckets to flat iron pans, where it was boiled over a wood fire for a day and a night. One pan needed four
loads of wood and gave two sacks of salt. By 1640 the forest on the hill was gone, and the wood had to come down the
river from the mountains. A wooden pipe, eleven miles long, was laid in 1712, so that the brine could flow to where the
forest still stood. The new works at the end of the pipe made three times as much salt with the same number of men. When
the railway brought cheap rock salt from the coast in 1869, the works were closed within four years. The pipe was taken
up and sold as firewood. Only the names of two inns and a street remind people of the trade today."""
_CLOCK = """\
The clock of the town hall was built in 1798 by a locksmith who had never made a clock before. It ran eight minutes late
on every day of its first winter, because the oil in its bearings grew thick in the cold. The locksmith put a small
stove into the tower, and from then on the clock was late only when the caretaker forgot to light the fire. In 1856 the
pendulum was replaced by a longer one made of dry fir, which keeps its length in the cold. The stove was taken away. The
bells were melted down in 1917 and came back, somewhat smaller, in 1925. An electric motor has wound up the weights
since 1961, and a radio receiver in the attic has corrected the hands once a day since 1994. The old wheels still turn,
and once a year the school classes of the town may climb up and oil them."""
_HERONS = """\
Forty pairs of herons nest in the poplars between the old gravel pits. They came in 1978, two years after the last
excavator had left and the pits had filled with water. The young birds leave their nests in June, and most of them stay
within ten miles of the place for their first winter. In cold winters, when the pits freeze, up to half of them die. The
town wanted to cut the poplars in 2003, because old poplars lose branches and a path leads past them. The path was moved
instead, by eighty yards, and a wooden hide was built where it ends. Counts from the hide show that the number of pairs
has hardly changed since then. What has changed is the food: in the nineties the birds brought mostly roach to their
young, and now they bring mostly crayfish, which somebody let into the pits around 2010."""


def _code_edit_prompt(code: str, change: str) -> str:
    return (
        f"A Python file before a change:\n\n```python\n{code}```\n\nThe change: {change} All else stays as it is.\n\n"
        "The whole file after the change:\n\n```python\n"
    )


def _summary_prompt(text: str) -> str:
    return (
        f"An article:\n\n{text}\n\nA summary of the article that quotes its most important sentences word for word, "
        'from the first to the last:\n\n"'
    )


PROMPT_TEXTS = {
    "prose": (_HARBOUR, _COMPOST, _BRIDGE),
    "code_edit": (
        _code_edit_prompt(_INVOICES, "the variable overdue is called late from now on."),
        _code_edit_prompt(_SHELF, "weights are in pounds, so each _kg becomes _lb and each kg becomes lb."),
        _code_edit_prompt(_TIMETABLE, "the key minutes of the result is called wait from now on."),
    ),
    "summary": (_summary_prompt(_SALT), _summary_prompt(_CLOCK), _summary_prompt(_HERONS)),
}
