# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether the instances run as they were planned, without what was added by hand."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize(("name", "port", "cpus"), [("chat", 8080, "0,2-3"), ("code", 8081, "0,4-5")])
def test_instances(host, name, port, cpus):
    service = host.service(f"llama-{name}")
    assert service.is_running and service.is_enabled
    assert service.systemd_properties["Nice"] == "0"
    assert host.socket(f"tcp://127.0.0.1:{port}").is_listening
    process = service.systemd_properties["MainPID"]
    assert host.check_output(f"cat /sys/fs/cgroup/system.slice/llama-{name}.service/cpuset.cpus.effective") == cpus
    assert "llama-server" in host.check_output(f"cat /proc/{process}/comm")


def test_nothing_by_hand_is_left(host):
    assert not host.file("/etc/systemd/system/llama-chat.service.d/by-hand.conf").exists
