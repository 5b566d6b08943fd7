/*
Copyright (c) 2026, the sovereign.epyc authors
GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
SPDX-License-Identifier: GPL-3.0-or-later
*/

/* A button beside each block of commands or of variables copies its text. */
async function copyText(block) {
  try {
    await navigator.clipboard.writeText(block.innerText.trimEnd());
  } catch {
    /* Browsers give the clipboard to pages of https and of files only; elsewhere they copy what is selected. */
    getSelection().selectAllChildren(block);
    return document.execCommand('copy');
  }
  return true;
}
window.addEventListener('load', () => {
  for (const block of document.querySelectorAll('.highlight-bash pre, .highlight-yaml pre, .highlight-ini pre')) {
    const button = document.createElement('button');
    button.type = 'button';
    button.className = 'copy';
    button.textContent = 'Copy';
    button.setAttribute('aria-live', 'polite');
    button.addEventListener('click', async () => {
      button.textContent = await copyText(block) ? 'Copied' : 'Selected';
      setTimeout(() => { button.textContent = 'Copy'; }, 2000);
    });
    block.before(button);
  }
});

/* What the theme leaves out for screen readers and keyboards. It puts tables into boxes that scroll, and does so after
   this event; a table that has the focus moves in its box by the arrow keys. */
window.addEventListener('load', () => {
  for (const caption of document.querySelectorAll('.caption[role="heading"]')) caption.setAttribute('aria-level', '2');
  for (const wide of document.querySelectorAll('pre, .rst-content table')) wide.tabIndex = 0;
});
