"""Attacks on each security measure of the server."""

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.testclient import TestClient
from starlette.websockets import WebSocketDisconnect

from chimeralab.web.safety import (
    MAX_BODY,
    POLICY,
    AllowedHosts,
    SecurityMiddleware,
    Visitor,
    owner_auth,
)
from chimeralab.web.serving import new_token
from tests.unit.web.conftest import OWN, PORT, TOKEN

ADDRESSES = ("/", "/logs", "/logs/1", "/logs/events", "/static/page.css", "/nowhere")


@pytest.mark.parametrize("address", ADDRESSES)
def test_request_without_a_token_is_rejected(stranger: TestClient, address: str) -> None:
    answer = stranger.get(address)
    assert answer.status_code == 403
    assert "Conversations" not in answer.text


@pytest.mark.parametrize("token", ["", "x", TOKEN[:-1], TOKEN + "x", "é", "a" * 10_000, "%00"])
def test_wrong_token_is_rejected(stranger: TestClient, token: str) -> None:
    assert stranger.get("/", params={"token": token}).status_code == 403
    assert stranger.get("/", headers={"cookie": f"chimera-{PORT}={token!a}"}).status_code == 403


def test_token_becomes_an_http_only_same_site_cookie(
    stranger: TestClient,
) -> None:
    answer = stranger.get(f"/?token={TOKEN}")
    assert answer.status_code == 200
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert stranger.get("/logs").status_code == 200


def test_wrong_token_sets_no_cookie(stranger: TestClient) -> None:
    assert "set-cookie" not in stranger.get("/?token=wrong").headers


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        f"evil.example:{PORT}",
        f"127.0.0.1.evil.example:{PORT}",
        f"localhost.evil.example:{PORT}",
        "127.0.0.1:1",
        "127.0.0.1",
        f"10.0.0.7:{PORT}",
        f"user@127.0.0.1:{PORT}",
        f"[::1]evil:{PORT}",
        "127.0.0.1:" + "9" * 5_000,
        "",
    ],
)
def test_dns_rebinding_is_rejected(owner: TestClient, host: str) -> None:
    answer = owner.get("/", headers={"host": host})
    assert answer.status_code == 421
    assert answer.headers["content-security-policy"] == POLICY
    assert "Conversations" not in answer.text


@pytest.mark.parametrize("host", [f"localhost:{PORT}", f"127.0.0.1:{PORT}", f"[::1]:{PORT}"])
def test_all_loopback_names_are_allowed(host: str) -> None:
    assert AllowedHosts("127.0.0.1", PORT).allows(host)


@pytest.mark.parametrize(
    ("host", "ours"), [("10.0.0.7", True), ("box", True), ("evil.example", False)]
)
def test_beyond_loopback_only_addresses_and_own_names_are_allowed(host: str, ours: bool) -> None:
    names = AllowedHosts("0.0.0.0", PORT)
    names.own = {"box"}
    assert names.allows(f"{host}:{PORT}") is ours


@pytest.mark.parametrize("address", [*ADDRESSES, "/broken"])
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE", "OPTIONS"])
def test_every_response_has_the_policy(
    owner: TestClient, stranger: TestClient, address: str, method: str
) -> None:
    if address == "/logs/events" and method == "GET":
        return  # the stream is endless; browser tests check its headers
    for client in (owner, stranger):
        answer = client.request(method, address)
        assert answer.headers["content-security-policy"] == POLICY
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "same-origin"


def test_policy_forbids_inline_scripts_and_other_servers() -> None:
    assert "unsafe" not in POLICY
    assert "http:" not in POLICY
    assert "*" not in POLICY
    assert "default-src 'none'" in POLICY


def failing(request: Request) -> Response:
    raise RuntimeError("a secret of the server")


async def taking(request: Request) -> Response:
    return PlainTextResponse(str(len(await request.body())))


def small_app(visitor: Visitor | None = None) -> TestClient:
    """Make an app of two pages behind the middleware, for the owner or a visitor."""
    inner = Starlette(
        routes=[Route("/fail", failing), Route("/rate/take", taking, methods=["POST"])]
    )
    authenticators = [owner_auth(TOKEN)] if visitor is None else [lambda token: visitor]
    safety = SecurityMiddleware(inner, AllowedHosts("127.0.0.1", PORT), authenticators)
    client = TestClient(safety, base_url=OWN, raise_server_exceptions=False)
    client.cookies.set(f"chimera-{PORT}", TOKEN)
    return client


def test_internal_error_reveals_nothing_and_has_the_policy() -> None:
    answer = small_app().get("/fail")
    assert answer.status_code == 500
    assert "secret" not in answer.text
    assert answer.headers["content-security-policy"] == POLICY


@pytest.mark.parametrize(
    "origin",
    [None, "null", "http://evil.example", f"https://127.0.0.1:{PORT}", "http://127.0.0.1:9999"],
)
def test_writes_from_other_sites_are_rejected(origin: str | None) -> None:
    headers = {"origin": origin} if origin else {}
    assert small_app().post("/rate/take", content=b"x", headers=headers).status_code == 403


def test_writes_from_own_pages_are_accepted() -> None:
    answer = small_app().post("/rate/take", content=b"xyz", headers={"origin": OWN})
    assert answer.text == "3"


def test_huge_body_is_rejected_whatever_its_declared_length() -> None:
    client, own = small_app(), {"origin": OWN}
    answer = client.post("/rate/take", content=b"x" * (MAX_BODY + 1), headers=own)
    assert answer.status_code == 413
    chunks = (b"x" * 10_000 for _ in range(50))
    answer = client.post("/rate/take", content=chunks, headers=own)
    assert (answer.status_code, answer.headers["content-security-policy"]) == (413, POLICY)
    lengths = {**own, "content-length": "9" * 5_000}
    assert client.post("/rate/take", content=b"x", headers=lengths).status_code == 413


def test_rater_can_only_rate() -> None:
    rater = Visitor("rater", ("/rate/", "/static/"), study=1, token="Ann")
    client = small_app(rater)
    assert client.get("/fail").status_code == 403
    assert client.get("/rate/../fail").status_code == 403
    assert client.post("/rate/take", headers={"origin": OWN}).status_code == 200


def test_websockets_are_rejected(safety: SecurityMiddleware) -> None:
    client = TestClient(safety, base_url=OWN)
    with pytest.raises(WebSocketDisconnect) as refused, client.websocket_connect("/"):
        pass
    assert refused.value.code == 1008


@pytest.mark.parametrize(
    "name", ["../safety.py", "..%2fsafety.py", "%2e%2e/safety.py", "app.py", "", "templates"]
)
def test_only_style_sheets_and_scripts_are_served(owner: TestClient, name: str) -> None:
    answer = owner.get(f"/static/{name}")
    assert answer.status_code == 404
    assert "SecurityMiddleware" not in answer.text


def test_tokens_are_long_and_unique() -> None:
    assert len({new_token() for _ in range(100)}) == 100
    assert len(new_token()) >= 43
