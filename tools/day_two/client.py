# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A client of the gateway that sends requests one after the other until a file appears; then it prints their number.

Arguments: the address of the gateway, the key, the file.
"""

import collections
import json
import pathlib
import sys
import urllib.error
import urllib.request

address, key, end = sys.argv[1:]
counts: collections.Counter[str] = collections.Counter()
body = json.dumps({"model": "small", "prompt": "Once upon a time", "max_tokens": 16}).encode()
headers = {"Content-Type": "application/json", "Authorization": f"Bearer {key}"}
while not pathlib.Path(end).exists():
    request = urllib.request.Request(f"http://{address}/v1/completions", body, headers)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            json.loads(answer.read())
            counts[str(answer.status)] += 1
    except urllib.error.HTTPError as error:
        counts[str(error.code)] += 1
    except (OSError, ValueError) as error:
        counts[type(error).__name__] += 1
print(f"{sum(counts.values())} requests: {counts['200']} answered, {sum(counts.values()) - counts['200']} lost")
