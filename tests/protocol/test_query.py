"""Recall's request, its normal form, its digests and its cursors (section 7)."""

from __future__ import annotations

import base64
import hashlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from simulator import changed

from hn_memory.errors import HnError, UsageError
from hn_memory.protocol import limits
from hn_memory.protocol.identifiers import KINDS
from hn_memory.protocol.policy import TRUST_CLASSES
from hn_memory.protocol.projection import LIFECYCLES
from hn_memory.protocol.query import (
    RECALL_CURSOR_DOMAIN,
    RECALL_DIGEST_DOMAIN,
    Request,
    decode_cursor,
    encode_cursor,
    normalise,
    query_digest,
    read_request,
    source_fingerprint,
)

pytestmark = pytest.mark.usefixtures("json_library")

OID = "9c3dda75b8177174239f0f443293fc0957d450c3"
ALICE = "eee58f78623483b29c317db8d118bd0ccff426613275e4083944c35855121c9c"
BOB = "156ed2992a16653a386c81c9fc77675d300311f5af5707c9bc8ef2e9c1cd273b"
CAROL = "2eacf03df75be02bad5110be18862b1c9d4852e2f72357177c208e03213d9298"
ISSUE = "issue:sha256:e0298894893be5f7d8a0bda03a4bbac49663d1e2ae970a39f4538e6d0621093c"
DIGEST = "sha256:" + "d" * 64
MEMORY = "sha256:" + "e" * 64

# The sources and the policy of the reference's repository (`repository.bundle` of the vectors) at `main`.
POLICY_DIGEST = "sha256:c618746e4b0d594598c133ed214ebaac9f1591a9e703b6a2551f21be7cf799c5"
BOBS = f"memory/{BOB}/34b92d603e14a993bb775a6590c8b185adf3116419a5ed06ed48ab6e2716ee4a"
HEADS = {
    f"refs/hn/memory/{ALICE}/2c0cad2ce50f4ad8d4228f936a01c4d898f3ae3a42897cb2037b5de0d042d5fc":
        "e657cf1d7839302af3929d6ab10291381d1e79e4",
    f"refs/hn/memory/{ALICE}/eca8165b7599f63248f6dc9de934e736e44a8b06ea06284e1b24f5f9431b6ee8":
        "bf7d7131b68a1cfe5c847838a3ef521c11c60a84",
    f"refs/hn/remotes/mirror/{BOBS}": "b9ba85e8ae59e7771f4370f0f66aff5cc0b0f7e9",
    f"refs/hn/remotes/origin/{BOBS}": "b9ba85e8ae59e7771f4370f0f66aff5cc0b0f7e9",
    f"refs/hn/remotes/origin/memory/{CAROL}/7e590c22b7bbfc06674d1965efc3bd89d01e101d341c786cac4df835cbaf5786":
        "f44aeca2f449fd6c1fbdabac69a3f7ff566b4155",
}  # fmt: skip


def request(**fields: Any) -> Request:
    return changed(Request(OID), **fields)


def refused(fields: dict[str, Any]) -> HnError:
    with pytest.raises(UsageError) as caught:
        normalise(request(**fields), OID)
    return caught.value


# -- the reference's digests and cursors ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "digest"),
    [
        ({}, "6996370062be0e00be2490ee745f379dd656ec569be5d76c456f6056dfbd1f33"),
        ({"trust": ("qualified",)}, "6996370062be0e00be2490ee745f379dd656ec569be5d76c456f6056dfbd1f33"),
        ({"include_untrusted": True}, "446db1ee366cd3c03fcc9068de3130eea36f39143101feec4356e69dec528ca0"),
        ({"lifecycle": ("all",)}, "3a6e65e7b937e3726829732ba591fc46304150a0c2642dadee6a83d3db995f21"),
        ({"lifecycle": ("superseded", "active")}, "7f6a1336fc01d2ad0200b34b6a5f2e62dd0c44587c97739466c2dabdabb3409d"),
        ({"trust": ("actor-untrusted",)}, "f998e61b013c47129dd1df9147e95aaf2549eebdf862b7259f5a955376ee7f4d"),
        ({"topics": (" Architecture ",)}, "5407c90ddda05024021d40190f464f2589e72555e13304f2732134cfff1c167a"),
        ({"path": "src/a.txt"}, "d6e0e580724a22ce29aee0fd72a756af32fa702e9955c32cc186c3ee60a61ec4"),
        ({"subject": ISSUE}, "47c516c2e888bd5cf5c95d04b2a51b4c22b7b38a4ddecc0714aea66f4452fb09"),
        ({"actors": (ALICE,)}, "4041e0b7c53a02d924ff4d2c55afb9e13ee89a1a0226a859bff05ed02d04a6f1"),
        ({"max_content_bytes": 120}, "fe39cf254d537d548d3f3fc27d3d49d0d04b322c983d3ffbd1e3c817f4af8ab6"),
        ({"max_records": 1}, "c4cee7a4509dd9545bcedf4e75770856de652020a6e4e5bb42751f19e88f9648"),
        (
            {"topics": ("architecture", "日本語"), "lifecycle": ("all",)},
            "af8fc45e65cfe9ec74f5d20e3768197de12ed3e163839f5f179e31c1cb2569d9",
        ),
        (
            {"kinds": ("decision", "attempt"), "include_untrusted": True},
            "f08ababcdb749021d70e238b6f27be6205a272fbea328978bb60196d1bb811f4",
        ),
        (
            {"query": "straße", "include_untrusted": True, "lifecycle": ("all",)},
            "cf9def17636b997006c2ac738cfb1e7a6022d6010d3f3ec947be10e5957a471a",
        ),
        (
            {"query": "STREAM isolation", "include_untrusted": True, "lifecycle": ("all",)},
            "f094322fcde50918eb90cc2257355c7d9b15163303392286d8a2a87c6efe6fed",
        ),
    ],
)
def test_digests_of_the_reference(fields: dict[str, Any], digest: str) -> None:
    normal = normalise(request(**fields), OID)
    fingerprint = source_fingerprint(POLICY_DIGEST, HEADS)
    assert query_digest(RECALL_DIGEST_DOMAIN, normal.document(), fingerprint, POLICY_DIGEST) == f"sha256:{digest}"


def test_a_cursor_of_the_reference() -> None:
    digest = "sha256:c4cee7a4509dd9545bcedf4e75770856de652020a6e4e5bb42751f19e88f9648"
    last = "sha256:06b741c5e735270ddba742ae4d674186d43de88fc5a4ab385d7d233f60b17f5e"
    cursor = (
        "eyJ2ZXJzaW9uIjowLCJxdWVyeURpZ2VzdCI6InNoYTI1NjpjNGNlZTdhNDUwOWRkOTU0NWJjZWRmNGU3NTc3MDg1NmRlNjUyMDIwYTZlNGU1"
        "YmI0Mjc1MWYxOWU4OGY5NjQ4IiwibGFzdE1lbW9yeUlkIjoic2hhMjU2OjA2Yjc0MWM1ZTczNTI3MGRkYmE3NDJhZTRkNjc0MTg2ZDQzZGU4"
        "OGZjNWE0YWIzODVkN2QyMzNmNjBiMTdmNWUifQ.8e384ae4d5ea827246335d1aa76e994bebdbcc1b5073d8b86b5a2608dabcae8c"
    )
    assert encode_cursor(RECALL_CURSOR_DOMAIN, digest, last) == cursor
    assert decode_cursor(RECALL_CURSOR_DOMAIN, cursor, digest) == last


def test_the_fingerprint_by_its_formula() -> None:
    def part(data: bytes) -> bytes:
        return len(data).to_bytes(8, "big") + data

    heads = {"refs/hn/memory/é": "2" * 40, "refs/hn/memory/a": "1" * 40}
    data = part(b"hn-memory-index-source-v0") + part(DIGEST.encode())
    data += part(b"refs/hn/memory/a") + part(b"1" * 40) + part("refs/hn/memory/é".encode()) + part(b"2" * 40)
    assert source_fingerprint(DIGEST, heads) == "sha256:" + hashlib.sha256(data).hexdigest()
    assert source_fingerprint(DIGEST, dict(reversed(heads.items()))) == source_fingerprint(DIGEST, heads)


def test_the_digest_by_its_formula() -> None:
    document = {"version": 0, "query": "<a>&"}
    text = (
        '{"domain":"d","request":{"version":0,"query":"\\u003ca\\u003e\\u0026"},'
        f'"sourceFingerprint":"{DIGEST}","policyDigest":"{MEMORY}"}}'
    )
    assert query_digest("d", document, DIGEST, MEMORY) == "sha256:" + hashlib.sha256(text.encode()).hexdigest()


# -- normal form ------------------------------------------------------------------------------------------


def test_the_defaults() -> None:
    normal = normalise(request(), OID)
    assert normal.document() == {
        "version": 0,
        "atCommit": OID,
        "lifecycle": ["active"],
        "trust": ["qualified"],
        "maxRecords": 20,
        "maxContentBytes": 65_536,
    }
    assert not normal.content_bound_given
    assert normalise(request(max_content_bytes=65_536), OID).content_bound_given


def test_everything_at_once_in_the_order_of_the_format() -> None:
    normal = normalise(
        request(
            subject=ISSUE, path="a", topics=("B", " a\u3000", "b"), kinds=("decision", "attempt", "decision"),
            actors=(BOB, ALICE, BOB), lifecycle=("superseded", "active"), trust=("qualified", "policy-missing"),
            query="Foo foo bar", max_records=3, max_content_bytes=4, cursor="x", include_untrusted=True,
        ),
        OID,
    )  # fmt: skip
    document = normal.document()
    assert list(document) == [
        "version", "atCommit", "subject", "path", "topic", "kind", "actor", "lifecycle", "trust", "query",
        "maxRecords", "maxContentBytes", "includeUntrusted",
    ]  # fmt: skip
    assert document["topic"] == ["a", "b"]
    assert document["kind"] == ["attempt", "decision"]
    assert document["actor"] == [BOB, ALICE]
    assert document["lifecycle"] == ["active", "superseded"]
    assert document["trust"] == ["policy-missing", "qualified"]
    assert document["query"] == "Foo foo bar"
    assert normal.terms == ("bar", "foo")
    assert normal.cursor == "x"
    assert normal._replace(cursor=None).document() == document


def test_all_lifecycles_and_all_trust() -> None:
    assert normalise(request(lifecycle=("all",)), OID).lifecycle == ()
    assert normalise(request(lifecycle=("all", "all")), OID).lifecycle == ()
    assert normalise(request(include_untrusted=True), OID).trust == ()
    assert normalise(request(include_untrusted=True, trust=("qualified",)), OID).trust == ("qualified",)
    assert refused({"lifecycle": ("all", "active")}).field == "lifecycle"


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"topics": ("a", " \u3000")}, "topic"),
        ({"kinds": ("note",)}, "kind"),
        ({"kinds": ("\ud800",)}, "kind"),
        ({"actors": (ALICE[:12],)}, "actor"),
        ({"subject": "task:1"}, "subject"),
        ({"subject": ""}, "subject"),
        ({"lifecycle": ("dead",)}, "lifecycle"),
        ({"trust": ("full",)}, "trust"),
        ({"trust": ("all",)}, "trust"),
        ({"query": "..."}, "query"),
        ({"query": "\u0301"}, "query"),
        ({"max_records": 0}, "maxRecords"),
        ({"max_records": -1}, "maxRecords"),
        ({"max_records": 2**63}, "maxRecords"),
        ({"max_content_bytes": 0}, "maxContentBytes"),
        ({"max_content_bytes": -(2**70)}, "maxContentBytes"),
    ],
)
def test_what_has_no_normal_form(fields: dict[str, Any], field: str) -> None:
    error = refused(fields)
    assert error.field == field
    assert error.message.isprintable() and error.message.isascii()


def test_text_that_has_no_bytes_is_refused() -> None:
    for name, fields in (
        ("query", {"query": "a\udc80"}),
        ("path", {"path": "a\udc80"}),
        ("topic", {"topics": ("a\udc80",)}),
    ):
        with pytest.raises(HnError) as caught:
            normalise(request(**fields), OID)
        assert (caught.value.code, caught.value.field) == ("text-invalid", name)


requests = st.builds(
    request,
    subject=st.none() | st.just(ISSUE),
    path=st.none() | st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8),
    topics=st.lists(st.text("aBÇ ıİ", max_size=4).filter(lambda topic: topic.strip() != "")).map(tuple),
    kinds=st.lists(st.sampled_from(KINDS)).map(tuple),
    actors=st.lists(st.sampled_from([ALICE, BOB, CAROL])).map(tuple),
    lifecycle=st.lists(st.sampled_from(LIFECYCLES)).map(tuple) | st.just(("all",)),
    trust=st.lists(st.sampled_from(TRUST_CLASSES)).map(tuple),
    query=st.text("aB-é1 ", max_size=8).filter(lambda query: query == "" or any(map(str.isalnum, query))),
    max_records=st.none() | st.integers(1, 2**63 - 1),
    max_content_bytes=st.none() | st.integers(1, 2**63 - 1),
    include_untrusted=st.booleans(),
)


@given(requests)
def test_the_normal_form_of_a_normal_form_is_itself(given_request: Request) -> None:
    normal = normalise(given_request, OID)
    document = normal.document()
    # No filter is spelled `all` on the way in.
    if not normal.lifecycle:
        document["lifecycle"] = ["all"]
    again = normalise(read_request(json.dumps(document).encode()), OID)
    assert again.document() == normal.document()
    assert again.terms == normal.terms


@given(requests)
def test_order_and_repetition_do_not_matter(given_request: Request) -> None:
    turned = changed(
        given_request,
        topics=(*reversed(given_request.topics), *given_request.topics),
        kinds=(*reversed(given_request.kinds), *given_request.kinds),
        actors=tuple(reversed(given_request.actors)),
        trust=tuple(reversed(given_request.trust)),
    )
    assert normalise(turned, OID) == normalise(given_request, OID)


# -- machine requests -------------------------------------------------------------------------------------


def test_a_machine_request_holds_every_field() -> None:
    document = {
        "version": 0, "atCommit": OID, "subject": ISSUE, "path": "a", "topic": ["a"], "kind": ["decision"],
        "actor": [ALICE], "lifecycle": ["active"], "trust": ["qualified"], "query": "q", "maxRecords": 2,
        "maxContentBytes": 3, "cursor": "c", "includeUntrusted": True,
    }  # fmt: skip
    assert read_request(json.dumps(document).encode()) == Request(
        OID, ISSUE, "a", ("a",), ("decision",), (ALICE,), ("active",), ("qualified",), "q", 2, 3, "c", True
    )
    assert read_request(json.dumps({"version": 0, "atCommit": OID}).encode()) == Request(OID)
    assert read_request(b'{"version": 0}', OID) == Request(OID)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"version": 1}, "version"),
        ({"version": False}, "version"),
        ({"version": 0.0}, "version"),
        ({"atCommit": "HEAD"}, "atCommit"),
        ({"atCommit": None}, "atCommit"),
        ({"topic": "a"}, "topic"),
        ({"topic": None}, "topic"),
        ({"kind": ["decision", 1]}, "kind[1]"),
        ({"query": None}, "query"),
        ({"subject": None}, "subject"),
        ({"maxRecords": None}, "maxRecords"),
        ({"maxRecords": 1.5}, "maxRecords"),
        ({"maxRecords": 2.0}, "maxRecords"),
        ({"maxRecords": True}, "maxRecords"),
        ({"maxContentBytes": "9"}, "maxContentBytes"),
        ({"includeUntrusted": 1}, "includeUntrusted"),
        ({"includeUntrusted": None}, "includeUntrusted"),
        ({"topics": []}, "topics"),
        ({"Version": 0}, "Version"),
    ],
)
def test_a_machine_request_is_read_strictly(changes: dict[str, Any], field: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_request(json.dumps({"version": 0, "atCommit": OID} | changes).encode())
    assert (caught.value.code, caught.value.field) == ("request-invalid", field)


def test_other_refusals_of_a_machine_request() -> None:
    for data, field in (
        (b'{"atCommit": "%s"}' % OID.encode(), "version"),
        (b'{"version": 0}', "atCommit"),
        (b'{"version": 0, "version": 0}', "version"),
        (b"[]", None),
        (b'{"version": 0}' + b" " * limits.REQUEST_BYTES, None),
    ):
        with pytest.raises(UsageError) as caught:
            read_request(data)
        assert (caught.value.code, caught.value.field) == ("request-invalid", field)


# -- cursors ----------------------------------------------------------------------------------------------

hex_digests = st.text("0123456789abcdef", min_size=64, max_size=64).map("sha256:".__add__)


@given(st.sampled_from([RECALL_CURSOR_DOMAIN, "another-domain"]), hex_digests, hex_digests)
def test_a_cursor_comes_back(domain: str, digest: str, last: str) -> None:
    cursor = encode_cursor(domain, digest, last)
    text, checksum = cursor.split(".")
    payload = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    assert payload == f'{{"version":0,"queryDigest":"{digest}","lastMemoryId":"{last}"}}'.encode()
    assert checksum == hashlib.sha256(domain.encode() + b"\0" + payload).hexdigest()
    assert decode_cursor(domain, cursor, digest) == last


def test_a_cursor_of_another_query_is_stale() -> None:
    cursor = encode_cursor(RECALL_CURSOR_DOMAIN, DIGEST, MEMORY)
    with pytest.raises(UsageError) as caught:
        decode_cursor(RECALL_CURSOR_DOMAIN, cursor, MEMORY)
    assert (caught.value.code, caught.value.field) == ("cursor-stale", "cursor")
    for cause in ("filters", "bounds", "commit", "policy", "memories"):
        assert cause in caught.value.message


def forged(document: object, domain: str = RECALL_CURSOR_DOMAIN) -> str:
    payload = document if isinstance(document, bytes) else json.dumps(document).encode()
    text = base64.urlsafe_b64encode(payload).rstrip(b"=").decode()
    return f"{text}.{hashlib.sha256(domain.encode() + bytes(1) + payload).hexdigest()}"


@pytest.mark.parametrize(
    "cursor",
    [
        "",
        ".",
        "bogus",
        "é.é",
        "\udcff",
        encode_cursor(RECALL_CURSOR_DOMAIN, DIGEST, MEMORY)[:-1],
        encode_cursor(RECALL_CURSOR_DOMAIN, DIGEST, MEMORY) + "0",
        encode_cursor(RECALL_CURSOR_DOMAIN, DIGEST, MEMORY) + "\n",
        " " + encode_cursor(RECALL_CURSOR_DOMAIN, DIGEST, MEMORY),
        encode_cursor(RECALL_CURSOR_DOMAIN, DIGEST, MEMORY).upper(),
        encode_cursor("hn-memory-grep-cursor-v0", DIGEST, MEMORY),
        forged([]),
        forged(b"\xff"),
        forged({"version": 1, "queryDigest": DIGEST, "lastMemoryId": MEMORY}),
        forged({"version": False, "queryDigest": DIGEST, "lastMemoryId": MEMORY}),
        forged({"version": 0, "queryDigest": DIGEST}),
        forged({"version": 0, "queryDigest": "\ud800", "lastMemoryId": MEMORY}),
        # The right values, spelled another way.
        forged({"version": 0, "queryDigest": DIGEST, "lastMemoryId": MEMORY}),
        encode_cursor(RECALL_CURSOR_DOMAIN, DIGEST, MEMORY).replace(".", "=."),
        forged({"version": 0, "queryDigest": DIGEST, "lastMemoryId": "x"}),
        forged({"version": 0, "queryDigest": DIGEST, "lastMemoryId": None}),
        forged({"version": 0, "queryDigest": DIGEST, "lastMemoryId": MEMORY, "page": 2}),
    ],
)
def test_what_is_no_cursor(cursor: str) -> None:
    with pytest.raises(UsageError) as caught:
        decode_cursor(RECALL_CURSOR_DOMAIN, cursor, DIGEST)
    assert (caught.value.code, caught.value.field) == ("cursor-invalid", "cursor")


@given(st.integers(0, 10_000), st.characters(codec="ascii"))
def test_a_cursor_with_another_character_is_refused(at: int, character: str) -> None:
    cursor = encode_cursor(RECALL_CURSOR_DOMAIN, DIGEST, MEMORY)
    at %= len(cursor)
    other = cursor[:at] + character + cursor[at + 1 :]
    if other == cursor:
        return
    with pytest.raises(UsageError) as caught:
        decode_cursor(RECALL_CURSOR_DOMAIN, other, DIGEST)
    assert caught.value.code == "cursor-invalid"
