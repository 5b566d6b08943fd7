# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import gzip
import json
import socket
import ssl
import urllib.error
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._redfish.connection import (
    addresses,
    bodies,
    pinned_certificate,
)
from ansible_collections.sovereign.epyc.plugins.module_utils._redfish.connection.client import BmcAccess, RedfishClient
from ansible_collections.sovereign.epyc.plugins.module_utils._redfish.connection.responses import (
    MAX_MESSAGE_LENGTH,
    BmcBusy,
    BmcError,
    NoRedfish,
    RequestRefused,
    Response,
)
from ansible_collections.sovereign.epyc.plugins.module_utils._redfish.connection.scrubbing import Scrubber
from ansible_collections.sovereign.epyc.tests.unit.fakes.bmcs import PASSWORD, ROOT, Bmc

SESSIONS = ("POST", f"{ROOT}/SessionService/Sessions")
SYSTEMS = ("GET", f"{ROOT}/Systems")


def error(message: str, code: str = "X.1.0.Y") -> dict[str, object]:
    return {"error": {"@Message.ExtendedInfo": [{"MessageId": code, "Message": message}]}}


@pytest.fixture
def bmc() -> Bmc:
    return Bmc([], {})


def test_a_session_is_ended_whatever_happens(bmc: Bmc) -> None:
    with pytest.raises(ZeroDivisionError), bmc.client():
        assert bmc.sessions == {"1"}
        raise ZeroDivisionError
    assert bmc.sessions == set()


def test_a_session_that_cannot_be_ended_hides_nothing(bmc: Bmc) -> None:
    bmc.answers["DELETE", f"{SESSIONS[1]}/1"] = [(200, b"", {"Location": "x"})]
    with bmc.client() as session:
        assert session.fetch_resource_body(f"{ROOT}/Systems")["Members"]


@pytest.mark.parametrize("status", [401, 403])
def test_a_refused_password_is_never_tried_twice(bmc: Bmc, status: int) -> None:
    bmc.answers[SESSIONS] = [(status, error(f"Wrong password {PASSWORD}."), {})]
    with pytest.raises(BmcError, match="refuses the user or the password") as failed, bmc.client():
        pass
    assert PASSWORD not in str(failed.value)
    assert bmc.log == [SESSIONS]


@pytest.mark.parametrize("status", [400, 403, 503])
def test_no_session_left_is_said_and_not_waited_for(bmc: Bmc, status: int) -> None:
    bmc.answers[SESSIONS] = [
        (status, error("The maximum number of user sessions is reached.", "IDRAC.2.8.RAC0218"), {})
    ]
    with pytest.raises(BmcError, match="no free session"), bmc.client():
        pass
    assert bmc.slept == []


def test_a_service_without_sessions_is_told(bmc: Bmc) -> None:
    bmc.answers[SESSIONS] = [(404, b"<html>", {})]
    with pytest.raises(BmcError, match=r"has no service of sessions.*status 404.*auth: basic"), bmc.client():
        pass


def test_a_busy_bmc_is_asked_again_at_growing_intervals(bmc: Bmc) -> None:
    with bmc.client() as session:
        bmc.answers[SYSTEMS] = [(503, {}, {}), (429, {}, {"Retry-After": "7"}), (503, {}, {"Retry-After": "soon"})]
        assert session.fetch_resource_body(SYSTEMS[1])["Members"]
    assert bmc.slept == [1, 7, 4]


def test_a_bmc_that_stays_busy_is_left(bmc: Bmc) -> None:
    with bmc.client(patience=10) as session:
        bmc.answers[SYSTEMS] = [(503, error("Wait."), {})] * 9
        with pytest.raises(BmcBusy, match=r"busy \('Wait\.'\).*within 10 seconds"):
            session.fetch_resource_body(SYSTEMS[1])
    assert sum(bmc.slept) <= 10


def test_a_session_that_somebody_ended_is_not_begun_again(bmc: Bmc) -> None:
    with bmc.client() as session:
        bmc.answers[SYSTEMS] = [(401, {}, {})]
        with pytest.raises(BmcError, match="in the middle of the run"):
            session.fetch_resource_body(SYSTEMS[1])
    assert bmc.log.count(SESSIONS) == 1


def test_a_redirection_within_the_bmc_is_followed(bmc: Bmc) -> None:
    with bmc.client() as session:
        bmc.answers["GET", "/old"] = [(308, {}, {"Location": SYSTEMS[1]})]
        assert session.fetch_resource_body("/old")["Members"]


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("https://elsewhere.example.com/redfish", "elsewhere.example.com"),
        ("http://bmc.example.com/redfish", "http://bmc.example.com"),
    ],
)
def test_a_redirection_to_another_place_is_refused(bmc: Bmc, place: str, words: str) -> None:
    with bmc.client() as session:
        bmc.answers[SYSTEMS] = [(302, {}, {"Location": place})]
        with pytest.raises(BmcError, match=words):
            session.fetch_resource_body(SYSTEMS[1])
    assert not any("elsewhere" in path for dummy, path in bmc.log)


def test_redirections_lead_somewhere(bmc: Bmc) -> None:
    with bmc.client() as session:
        bmc.answers[SYSTEMS] = [(302, {}, {"Location": SYSTEMS[1]})] * 4
        with pytest.raises(BmcError, match="leads nowhere"):
            session.fetch_resource_body(SYSTEMS[1])
        bmc.answers["PATCH", "/x"] = [(302, {}, {"Location": "/y"})]
        with pytest.raises(BmcError, match="leads nowhere"):
            session.send_request("PATCH", "/x", {})


@pytest.mark.parametrize("uri", ["https://other.example.com{}", "//other{}", "HTTPS://BMC.example.com:443{}", "{}#x"])
def test_of_the_uri_of_a_resource_only_the_path_is_used(bmc: Bmc, uri: str) -> None:
    urls: list[str] = []

    def send(method: str, url: str, **more: Any) -> Any:
        urls.append(url)
        return bmc(method, url, **more)

    with RedfishClient(BmcAccess("bmc.example.com", "ops", PASSWORD), send) as session:
        assert session.fetch_resource_body(uri.format(SYSTEMS[1]))["Members"]
        with pytest.raises(BmcError, match="is no URI"):
            session.fetch_resource_body("https://[::1")
    assert {url.partition("/redfish")[0] for url in urls} == {"https://bmc.example.com"}


def test_a_path_may_have_any_characters(bmc: Bmc) -> None:
    assert addresses.uri_to_path("b", "redfish/v1/a b\u00e9?$expand=*($levels=1)") == (
        "/redfish/v1/a%20b%C3%A9?$expand=*($levels=1)"
    )


def test_what_is_compressed_is_read(bmc: Bmc) -> None:
    with bmc.client() as session:
        bmc.answers[SYSTEMS] = [(200, gzip.compress(json.dumps({"a": 1}).encode()), {})]
        assert session.fetch_resource_body(SYSTEMS[1]) == {"a": 1}
        bmc.answers[SYSTEMS] = [(200, b"<html>not up yet</html>", {})]
        assert session.fetch_resource_body(SYSTEMS[1])["Members"]
    assert bmc.slept == [1]


def test_a_small_body_that_becomes_a_large_one_is_not_unpacked_to_its_end(
    bmc: Bmc, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bodies, "MAX_RESPONSE_BYTES", 1 << 16)
    packed = gzip.compress(b'{"a": "' + b"x" * (1 << 24) + b'"}')
    assert len(packed) < 1 << 16
    flaws = {packed: "it is larger", packed[:50]: "it is no JSON", b"\x1f\x8bnothing": "it is no JSON"}
    flaws |= {b"[" * 60_000: "it is no JSON", b" " * (1 << 17): "it is larger", b"3": "it is no object"}
    with bmc.client(patience=0) as session:
        for body, flaw in flaws.items():
            bmc.answers[SYSTEMS] = [(200, body, {})]
            with pytest.raises(NoRedfish, match=f"with what is no Redfish: {flaw}"):
                session.fetch_resource_body(SYSTEMS[1])


def test_what_is_not_there_is_none_and_what_fails_is_told(bmc: Bmc) -> None:
    with bmc.client() as session:
        assert session.fetch_resource_if_present("/nowhere") is None
        bmc.answers["GET", "/broken"] = [(500, error("Out of memory."), {})] * 2
        with pytest.raises(RequestRefused, match=r"status 500 \('Out of memory\.'\)"):
            session.fetch_resource_if_present("/broken")
        with pytest.raises(RequestRefused, match="does not give /broken"):
            session.fetch_resource_body("/broken")


@pytest.mark.parametrize(
    ("cause", "words"),
    [
        (socket.gaierror(-2, "x"), "is unknown here"),
        (TimeoutError(), "did not answer within 30 seconds"),
        (ConnectionRefusedError(111, "Connection refused"), "cannot be reached: Connection refused"),
        (ssl.SSLError(1, "WRONG_VERSION"), "speaks no TLS that is safe"),
    ],
)
def test_why_a_bmc_cannot_be_reached(cause: Exception, words: str) -> None:
    def send(*dummy: object, **more: object) -> None:
        raise urllib.error.URLError(cause)

    with pytest.raises(BmcError, match=words), RedfishClient(BmcAccess("b", "u", "p"), send):
        pass


def test_a_certificate_that_is_not_trusted_says_what_helps() -> None:
    untrusted = ssl.SSLCertVerificationError(1, "x")
    untrusted.verify_message = "self-signed certificate"

    def send(*dummy: object, **more: object) -> None:
        raise urllib.error.URLError(untrusted)

    with (
        pytest.raises(BmcError, match=r"self-signed certificate.*fingerprint"),
        RedfishClient(BmcAccess("b", "u", "p"), send),
    ):
        pass


@pytest.mark.parametrize("address", ["http://bmc", "https://bmc/redfish/v1", "https://me:secret@bmc", "https://"])
def test_an_address_that_is_none_is_refused_without_its_secret(address: str) -> None:
    with pytest.raises(BmcError, match="is no BMC") as failed:
        addresses.bmc_address_to_https_url(address)
    assert "secret" not in str(failed.value)


def test_an_address_may_have_a_port() -> None:
    assert (
        addresses.bmc_address_to_https_url("10.0.0.7:8443")
        == addresses.bmc_address_to_https_url("https://10.0.0.7:8443/")
        == "https://10.0.0.7:8443"
    )


def test_fingerprints_as_people_write_them() -> None:
    digits = "ab" * 32
    colons = ":".join(["AB"] * 32)
    assert (
        pinned_certificate.parse_sha256_fingerprint(digits)
        == pinned_certificate.parse_sha256_fingerprint(f"SHA256={colons}")
        == bytes.fromhex(digits)
    )
    with pytest.raises(BmcError, match="64 hexadecimal digits"):
        pinned_certificate.parse_sha256_fingerprint("ab:cd")
    context = pinned_certificate.make_pinned_tls_context(bytes.fromhex(digits))
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_NONE, False)
    assert BmcAccess("b", "u", "p", fingerprint=digits).certificate_sha256 == bytes.fromhex(digits)


def test_a_message_is_cut_and_without_the_password() -> None:
    answer = Response(400, {}, error(f"{PASSWORD} is in {'x' * 999}"), Scrubber("ops", PASSWORD))
    assert PASSWORD not in answer.error_messages()
    assert len(answer.error_messages()) == MAX_MESSAGE_LENGTH + 3
    assert Response(400, {}, {"error": {"code": "A.B", "message": "Plain."}}).error_messages() == "Plain."
    assert Response(204, {}, []).error_messages() == ""


def test_entity_tags_are_taken_from_both_places() -> None:
    assert Response(200, {"etag": '"a"'}, {"@odata.etag": '"b"'}).etag == '"a"'
    assert Response(200, {}, {"@odata.etag": '"b"'}).etag == '"b"'
    assert Response(200, {}, {}).etag is None
