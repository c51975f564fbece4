"""One stream as a chain (sections 2 and 4): every attack on it is refused under a name of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from simulator import Author, StreamSimulator, blob, changed, payload_of, record

from hn_memory.errors import HnError
from hn_memory.protocol import limits
from hn_memory.protocol.chain import FILE_MODE, ChainHead, StreamChain, StreamCommit, StreamEntry, read_files
from hn_memory.protocol.identifiers import derived_stream
from hn_memory.protocol.signing import encode_signature

ADA, MALLORY = Author(1, "Ada"), Author(2, "Mallory")
LENGTH = 5


def stream() -> StreamSimulator:
    return StreamSimulator(ADA).grow(LENGTH)


def run(chain: StreamChain, commits: Iterable[StreamCommit]) -> ChainHead | None:
    for commit in commits:
        chain.accept(commit)
    return chain.head


def refusal(chain: StreamChain, commit: StreamCommit) -> HnError:
    """The error for the next commit, after a look that the chain stays where it was."""
    before = chain.head
    with pytest.raises(HnError) as caught:
        chain.accept(commit)
    assert chain.head == before
    assert caught.value.message.isprintable()
    return caught.value


def test_an_honest_stream_verifies_from_first_to_tip() -> None:
    honest = stream()
    chain = honest.chain()
    for sequence, commit in enumerate(honest.commits, 1):
        memory = chain.accept(commit)
        assert memory.id == honest.memory_ids[sequence - 1]
        assert memory.envelope.sequence == sequence
        assert chain.head == ChainHead(sequence, memory.id, commit.commit)


def test_every_operation_is_a_link() -> None:
    mixed = StreamSimulator(ADA)
    for operation in ("record", "supersede", "retract", "challenge"):
        mixed.append(operation=operation)
    assert run(mixed.chain(), mixed.commits) == ChainHead(4, mixed.memory_ids[3], mixed.commits[3].commit)


def test_verification_goes_on_from_a_head() -> None:
    honest = stream()
    head = run(honest.chain(), honest.commits[:3])
    assert run(honest.chain(head), honest.commits[3:]) == run(honest.chain(), honest.commits)


def test_what_is_not_signed_does_not_matter() -> None:
    # Message, author and dates are not in a StreamCommit at all; even the commit's own ID is only a link.
    first = changed(stream().commits[0], commit="f" * 40)
    chain = stream().chain()
    chain.accept(first)
    assert chain.head is not None and chain.head.commit == "f" * 40


# -- attacks on the order of commits ----------------------------------------------------------------------


def rewound(good: StreamSimulator) -> list[StreamCommit]:
    """The ref was set back and grown anew: after the head we know stands a second commit of sequence 4."""
    return [*good.commits[:4], good.forge(at=3, record=record("another story"))]


def forked(good: StreamSimulator) -> list[StreamCommit]:
    """The fork's own continuation, spliced on our branch: the right sequence on a parent we never saw."""
    other = StreamSimulator(ADA).grow(2)
    other.append(record=record("another story"))
    other.append()
    return [*good.commits[:3], other.commits[3]]


def relinked(good: StreamSimulator) -> list[StreamCommit]:
    """As `forked`, with the Git parent bent to our branch: what is signed names the other predecessor."""
    fork = forked(good)
    return [*fork[:3], changed(fork[3], parents=(good.commits[2].commit,))]


ORDER_ATTACKS: dict[str, tuple[Callable[[StreamSimulator], list[StreamCommit]], str]] = {
    "the first commit is missing": (lambda good: good.commits[1:2], "sequence-broken"),
    "a commit is left out": (lambda good: [*good.commits[:2], good.commits[3]], "sequence-broken"),
    "a commit is repeated": (lambda good: [*good.commits[:2], good.commits[1]], "sequence-broken"),
    "two commits are exchanged": (lambda good: [good.commits[0], good.commits[2]], "sequence-broken"),
    "the stream starts over": (lambda good: [*good.commits, good.commits[0]], "sequence-broken"),
    "the stream was rewound": (rewound, "sequence-broken"),
    "a fork was spliced in": (forked, "parent-mismatch"),
    "a fork was linked in": (relinked, "previous-mismatch"),
    "a root has a parent": (lambda good: [good.forge(at=0, parents=["0" * 40])], "parent-mismatch"),
    "a later commit has no parent": (lambda good: [*good.commits[:2], good.forge(at=2, parents=[])], "parent-mismatch"),
    "a merge": (
        lambda good: [*good.commits[:2], good.forge(at=2, parents=[good.commits[1].commit, good.commits[0].commit])],
        "parent-mismatch",
    ),
    "a merge of itself": (
        lambda good: [*good.commits[:2], good.forge(at=2, parents=[good.commits[1].commit] * 2)],
        "parent-mismatch",
    ),
    "the parent is the grandparent": (
        lambda good: [*good.commits[:3], good.forge(at=3, parents=[good.commits[1].commit])],
        "parent-mismatch",
    ),
    "previous names the grandparent": (
        lambda good: [*good.commits[:3], good.forge(at=3, previous=good.memory_ids[1])],
        "previous-mismatch",
    ),
    "previous names nothing": (
        lambda good: [*good.commits[:3], good.forge(at=3, previous="sha256:" + "0" * 64)],
        "previous-mismatch",
    ),
    "the sequence jumps to the end": (
        lambda good: [*good.commits[:3], good.forge(at=3, sequence=limits.SEQUENCE_MAX)],
        "sequence-broken",
    ),
}


@pytest.mark.parametrize("attack", ORDER_ATTACKS)
def test_attacks_on_the_order(attack: str) -> None:
    build, code = ORDER_ATTACKS[attack]
    *honest, last = build(stream())
    chain = stream().chain()
    run(chain, honest)
    assert refusal(chain, last).code == code


def test_a_truncated_stream_is_a_shorter_stream() -> None:
    # From bytes alone nobody can tell; whoever has seen more compares heads.
    honest = stream()
    assert run(honest.chain(), honest.commits[:3]) == ChainHead(3, honest.memory_ids[2], honest.commits[2].commit)


def test_a_rewritten_past_cannot_carry_an_honest_future() -> None:
    honest = stream()
    rewritten = StreamSimulator(ADA).grow(1)
    rewritten.append(record=record("rewritten"))
    chain = honest.chain()
    run(chain, rewritten.commits)
    assert refusal(chain, honest.commits[2]).code == "parent-mismatch"


@given(st.lists(st.integers(0, LENGTH - 1), min_size=1, max_size=7))
def test_no_order_but_the_true_one_is_accepted(order: list[int]) -> None:
    honest = stream()
    chain = honest.chain()
    try:
        run(chain, (honest.commits[at] for at in order))
    except HnError:
        assert order != list(range(len(order)))
    else:
        assert order == list(range(len(order)))
    assert chain.head is None or chain.head.memory_id == honest.memory_ids[chain.head.sequence - 1]


# -- attacks on who speaks --------------------------------------------------------------------------------


def test_a_commit_signed_by_somebody_else() -> None:
    good = stream()
    forged = good.forge(signer=MALLORY, record=record("Ada never said this"))
    chain = good.chain()
    run(chain, good.commits)
    assert refusal(chain, forged).code == "signature-invalid"


def test_somebody_elses_honest_memory_under_our_ref() -> None:
    chain = StreamSimulator(ADA).chain()
    hers = StreamSimulator(MALLORY, ADA.stream).grow(1)
    assert refusal(chain, hers.commits[0]).code == "owner-mismatch"


def test_a_key_that_claims_another_actor() -> None:
    good = stream()
    payload = payload_of(good.commits[0]).replace(ADA.public_key.encode(), MALLORY.public_key.encode())
    signature = encode_signature(MALLORY.sign(payload))
    commit = changed(good.commits[0], entries=(blob("memory.json", payload), blob("signature", signature)))
    error = refusal(good.chain(), commit)
    assert (error.code, error.field) == ("memory-invalid", "actor")


def test_our_own_other_stream_under_this_ref() -> None:
    other = StreamSimulator(ADA, derived_stream(ADA.actor, "other")).grow(1)
    assert refusal(StreamSimulator(ADA).chain(), other.commits[0]).code == "stream-mismatch"
    chain = StreamChain(ADA.actor, other.stream)
    assert refusal(chain, stream().commits[0]).code == "stream-mismatch"


def test_the_signature_of_another_memory() -> None:
    good = stream()
    swapped = changed(good.commits[0], entries=(good.commits[0].entries[0], good.commits[1].entries[1]))
    assert refusal(good.chain(), swapped).code == "signature-invalid"


@settings(max_examples=60)
@given(st.integers(0, 10_000), st.integers(0, 7))
def test_a_payload_with_any_bit_changed(at: int, bit: int) -> None:
    first = stream().commits[0]
    payload = bytearray(payload_of(first))
    payload[at % len(payload)] ^= 1 << bit
    damaged = changed(first, entries=(blob("memory.json", bytes(payload)), first.entries[1]))
    assert refusal(stream().chain(), damaged).code in ("memory-invalid", "signature-invalid")


# -- attacks on the tree ----------------------------------------------------------------------------------


def with_entries(*entries: StreamEntry) -> StreamCommit:
    return changed(stream().commits[0], entries=entries)


MEMORY, SIGNATURE = stream().commits[0].entries
PADDED = blob("signature", (SIGNATURE.data or b"") + b"==")

TREE_ATTACKS: dict[str, tuple[tuple[StreamEntry, ...], str, str]] = {
    "nothing": ((), "tree-malformed", "memory.json"),
    "no signature": ((MEMORY,), "tree-malformed", "signature"),
    "no memory": ((SIGNATURE,), "tree-malformed", "memory.json"),
    "a file beside": ((MEMORY, blob("readme", b"x"), SIGNATURE), "tree-malformed", "another"),
    "a directory beside": (
        (MEMORY, SIGNATURE, StreamEntry("040000", "x", None, None)), "tree-malformed", "another"),
    "another spelling": ((changed(MEMORY, name="Memory.json"), SIGNATURE), "tree-malformed", "another"),
    "a file twice": ((MEMORY, MEMORY, SIGNATURE), "tree-malformed", "twice"),
    "an executable": ((changed(MEMORY, mode="100755"), SIGNATURE), "tree-malformed", "100755"),
    "a symbolic link": ((MEMORY, changed(SIGNATURE, mode="120000")), "tree-malformed", "120000"),
    "a submodule": ((changed(MEMORY, mode="160000", data=None), SIGNATURE), "tree-malformed", "160000"),
    "a directory": ((changed(MEMORY, mode="040000", data=None), SIGNATURE), "tree-malformed", "040000"),
    "an odd mode": ((changed(MEMORY, mode="100664"), SIGNATURE), "tree-malformed", "100664"),
    "a memory that is too large": (
        (StreamEntry(FILE_MODE, "memory.json", limits.MEMORY_JSON_BYTES + 1, None), SIGNATURE),
        "file-too-large", str(limits.MEMORY_JSON_BYTES)),
    "a signature that is too large": (
        (MEMORY, blob("signature", b"A" * (limits.SIGNATURE_BYTES + 1))), "file-too-large", "128"),
    "a memory that is not here": ((changed(MEMORY, size=None, data=None), SIGNATURE), "object-missing", "memory.json"),
    "a signature that is not here": ((MEMORY, changed(SIGNATURE, data=None)), "object-missing", "signature"),
    "an empty signature": ((MEMORY, blob("signature", b"")), "signature-malformed", "base64"),
    "a padded signature": ((MEMORY, PADDED), "signature-malformed", "base64"),
    "a signature with a newline": (
        (MEMORY, blob("signature", (SIGNATURE.data or b"") + b"\n")), "signature-malformed", "base64"),
    "an empty memory": ((blob("memory.json", b""), SIGNATURE), "memory-invalid", "JSON"),
    "a memory with a newline": (
        (blob("memory.json", (MEMORY.data or b"") + b"\n"), SIGNATURE), "memory-invalid", "canonical"),
}  # fmt: skip


@pytest.mark.parametrize("attack", TREE_ATTACKS)
def test_attacks_on_the_tree(attack: str) -> None:
    entries, code, told = TREE_ATTACKS[attack]
    error = refusal(stream().chain(), with_entries(*entries))
    assert error.code == code
    assert told in error.message


def test_the_order_of_entries_is_gits_business() -> None:
    payload, signature = read_files(with_entries(SIGNATURE, MEMORY))
    assert payload == MEMORY.data
    assert encode_signature(signature) == SIGNATURE.data


def test_the_bounds_of_the_files_are_inside() -> None:
    largest = StreamEntry(FILE_MODE, "memory.json", limits.MEMORY_JSON_BYTES, b" " * limits.MEMORY_JSON_BYTES)
    assert read_files(with_entries(largest, SIGNATURE))[0] == largest.data
