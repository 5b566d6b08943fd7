/*
Copyright (c) 2026, the sovereign.epyc authors
GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
SPDX-License-Identifier: GPL-3.0-or-later
*/

/* What the theme leaves out for screen readers and keyboards. It puts tables into boxes that scroll, and does so after
   this event; a table that has the focus moves in its box by the arrow keys. */
window.addEventListener('load', () => {
  for (const caption of document.querySelectorAll('.caption[role="heading"]')) caption.setAttribute('aria-level', '2');
  for (const wide of document.querySelectorAll('pre, .rst-content table')) wide.tabIndex = 0;
});
