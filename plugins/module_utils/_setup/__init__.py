# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""What site.yml installs beside settings: the host tool, its units, kernel modules, packages. Not installed itself."""
