# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Contrasts on a page as WCAG 2 counts them; level AA asks for at least 4.5 of a text against what is behind it."""

from __future__ import annotations

from tools.pictures.chromium import Page

LIGHT = """
          const rgb = text => text.match(/[\\d.]+/g).map(Number);
          const light = text => rgb(text).slice(0, 3).map(part => part / 255)
            .map(part => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4)
            .reduce((sum, part, place) => sum + part * [0.2126, 0.7152, 0.0722][place], 0);
          const contrast = (one, two) => (Math.max(one, two) + 0.05) / (Math.min(one, two) + 0.05);
"""


def text_contrasts(page: Page) -> list[tuple[float, str]]:
    """Return the contrast of each text that is to be seen, with the class or the name of its element."""
    ratios: list[tuple[float, str]] = page.evaluate_javascript(f"""
        (() => {{ {LIGHT}
          const ground = node => {{ while (node && (rgb(getComputedStyle(node).backgroundColor)[3] ?? 1) === 0)
            node = node.parentElement; return getComputedStyle(node ?? document.body).backgroundColor; }};
          return [...document.querySelectorAll('body *')].filter(one => one.innerText && one.checkVisibility()
            && [...one.childNodes].some(child => child.nodeType === 3 && child.data.trim()))
            .map(one => [contrast(light(getComputedStyle(one).color), light(ground(one))),
              one.className || one.tagName]);
        }})()
    """)
    return ratios


def map_letter_contrasts(page: Page) -> dict[str, float]:
    """Return the contrast of the letters on a map with each kind of cell that it has."""
    ratios: dict[str, float] = page.evaluate_javascript(f"""
        (() => {{ {LIGHT}
          const text = light(getComputedStyle(document.querySelector('.map .letters')).fill);
          return Object.fromEntries([...document.querySelectorAll('.map rect[class]')]
            .filter(cell => getComputedStyle(cell).fill !== 'none')
            .map(cell => [cell.className.baseVal, contrast(text, light(getComputedStyle(cell).fill))]));
        }})()
    """)
    return ratios
