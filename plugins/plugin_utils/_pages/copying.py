# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""A button beside each command of a page that copies the command. Without the script, a click selects the command."""

from __future__ import annotations

from ansible_collections.sovereign.epyc.plugins.plugin_utils._pages.html import Html, element

COPY_SCRIPT = """
async function copyText(node) {
  try {
    await navigator.clipboard.writeText(node.innerText.trimEnd());
  } catch {
    // Browsers give the clipboard to pages of https and of files only; elsewhere they copy what is selected.
    getSelection().selectAllChildren(node);
    return document.execCommand('copy');
  }
  return true;
}
document.addEventListener('DOMContentLoaded', () => {
  for (const node of document.querySelectorAll('[data-copy]')) {
    const button = document.createElement('button');
    button.type = 'button';
    button.className = 'copy';
    button.textContent = 'Copy';
    button.setAttribute('aria-live', 'polite');
    button.addEventListener('click', async () => {
      button.textContent = await copyText(node) ? 'Copied' : 'Selected';
      setTimeout(() => { button.textContent = 'Copy'; }, 2000);
    });
    node.before(button);
  }
});
"""
COPY_STYLE = """
[data-copy] { user-select: all; }
.copy { float: right; margin: 0 0 .2rem .6rem; padding: .1rem .5rem; border: 1px solid var(--faint);
  border-radius: .3rem; background: var(--ground); color: var(--text); font: .8rem system-ui, sans-serif;
  cursor: pointer; }
@media print { .copy { display: none; } }
"""


def copied_element(tag: str, /, *content: object, **attributes: object) -> Html:
    """Return an element whose text a button beside it copies."""
    return element(tag, *content, data_copy=True, **attributes)
