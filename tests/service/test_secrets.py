"""The scan for credentials: shapes are found, prose and placeholders are not, and no message repeats one.

Sample tokens are put together here from parts, so that no file of this project holds one.
"""

from __future__ import annotations

import base64
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hn_memory
from hn_memory.errors import HnError, UsageError
from hn_memory.protocol.identity import encode_identity, new_identity
from hn_memory.service import secrets
from hn_memory.service.secrets import RULES, Finding, refuse, scan

MIXED = "a1B2c3D4e5F6g7H8i9J0kLmNoPqRsTuVwXyZ" * 10
UPPER = "A2B3C4D5E6F7G2H3I4J5K6L7M2N3O4P5Q6R7" * 10
HEX = "0123456789abcdef0f1e2d3c4b5a6978" * 10
DIGITS = "1234567890" * 3


def b64url(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


SAMPLES = [
    ("age-key", "AGE-SECRET-" + "KEY-1" + UPPER[:58]),
    ("anthropic-key", "sk-" + "ant-api03-" + MIXED[:93] + "AA"),
    ("atlassian-token", "ATA" + "TT3xFf" + MIXED[:180] + "=1A2B3C4D"),
    ("atlassian-token", "ATB" + "B" + MIXED[:32]),
    ("authorization-header", "Authorization: " + "Bearer " + MIXED[:40]),
    ("authorization-header", "curl -H 'authorization: " + "token " + HEX[:40] + "'"),
    ("authorization-header", '"Authorization": "' + "Basic " + base64.b64encode(b"alice:hunter22").decode() + '"'),
    ("aws-access-key", "AKI" + "A" + UPPER[:16]),
    ("aws-access-key", "ASI" + "A" + UPPER[:16]),
    ("aws-secret-key", "aws_secret_access_" + "key = " + MIXED[:40]),
    ("aws-secret-key", '"secretAccess' + 'Key": "' + MIXED[:38] + '/+"'),
    ("azure-storage-key", "AccountName=x;Account" + "Key=" + MIXED[:86] + "==;"),
    ("cloudflare-origin-key", "v1" + ".0-" + HEX[:24] + "-" + HEX[:146]),
    ("databricks-token", "dap" + "i" + HEX[:32]),
    ("digitalocean-token", "dop_" + "v1_" + HEX[:64]),
    ("discord-webhook", "https://discord.com/api/" + "webhooks/" + DIGITS[:18] + "/" + MIXED[:68]),
    ("docker-token", "dckr_" + "pat_" + MIXED[:27]),
    ("doppler-token", "dp." + "pt." + MIXED[:43]),
    ("github-token", "gh" + "p_" + MIXED[:36]),
    ("github-token", "gh" + "o_" + MIXED[:36]),
    ("github-token", "gh" + "u_" + MIXED[:36]),
    ("github-token", "gh" + "s_" + MIXED[:36]),
    ("github-token", "gh" + "r_" + MIXED[:76]),
    ("github-token", "github_" + "pat_" + MIXED[:22] + "_" + MIXED[:59]),
    ("gitlab-token", "glp" + "at-" + MIXED[:20]),
    ("google-key", "AI" + "za" + MIXED[:35]),
    ("google-oauth", "ya2" + "9." + MIXED[:120]),
    ("google-oauth", "GOC" + "SPX-" + MIXED[:28]),
    ("grafana-token", "gls" + "a_" + MIXED[:32] + "_" + HEX[:8]),
    ("grafana-token", "gl" + "c_eyJ" + MIXED[:80]),
    ("groq-key", "gs" + "k_" + MIXED[:52]),
    ("hn-identity-key", encode_identity(new_identity("A", b"7" * 32)).decode()),
    ("huggingface-token", "h" + "f_" + MIXED[:34]),
    ("jwt", b64url('{"alg":"HS256","typ":"JWT"}') + "." + b64url('{"sub":"42","name":"A"}') + "." + MIXED[:43]),
    ("linear-key", "lin_" + "api_" + MIXED[:40]),
    ("newrelic-key", "NRA" + "K-" + UPPER[:27]),
    ("notion-token", "secret" + "_" + MIXED[:43]),
    ("notion-token", "nt" + "n_" + DIGITS[:11] + MIXED[:35]),
    ("npm-token", "np" + "m_" + MIXED[:36]),
    ("openai-key", "sk" + "-" + MIXED[:48]),
    ("openai-key", "sk-" + "proj-" + MIXED[:74] + "_" + MIXED[:80]),
    ("openai-key", "sk-" + "or-v1-" + HEX[:64]),
    ("planetscale-token", "pscale_" + "tkn_" + MIXED[:43]),
    ("postman-key", "PMA" + "K-" + HEX[:24] + "-" + HEX[:34]),
    ("private-key", "-----BEGIN " + "RSA PRIVATE KEY-----\n" + MIXED[:64] + "\n" + MIXED[:64]),
    ("private-key", "-----BEGIN " + "PRIVATE KEY-----\\n" + MIXED[:64] + "\\n-----END PRIVATE KEY-----"),
    ("private-key", "> -----BEGIN " + "OPENSSH PRIVATE KEY-----\r\n> " + MIXED[:70]),
    ("private-key", "-----BEGIN " + "RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n"),
    ("private-key", "-----BEGIN " + "PGP PRIVATE KEY BLOCK-----\n\n" + MIXED[:64]),
    ("pypi-token", "pypi-" + "AgEIcHlwaS5vcmc" + MIXED[:150]),
    ("replicate-token", "r" + "8_" + MIXED[:37]),
    ("rubygems-key", "ruby" + "gems_" + HEX[:48]),
    ("sendgrid-key", "S" + "G." + MIXED[:22] + "." + MIXED[:43]),
    ("sentry-token", "sntry" + "u_" + HEX[:64]),
    ("sentry-token", "sntry" + "s_eyJ" + MIXED[:100]),
    ("shopify-token", "shp" + "at_" + HEX[:32]),
    ("slack-token", "xox" + "b-" + DIGITS[:12] + "-" + DIGITS[:12] + "-" + MIXED[:24]),
    ("slack-token", "xap" + "p-1-A012345-" + DIGITS[:13] + "-" + HEX[:64]),
    ("slack-webhook", "https://hooks.slack.com/" + "services/T01234567/B01234567/" + MIXED[:24]),
    ("stripe-key", "sk_" + "live_" + MIXED[:24]),
    ("stripe-key", "rk_" + "live_" + MIXED[:99]),
    ("stripe-key", "whs" + "ec_" + MIXED[:32]),
    ("supabase-key", "sb_" + "secret_" + MIXED[:31]),
    ("supabase-key", "sb" + "p_" + HEX[:40]),
    ("telegram-token", DIGITS[:10] + ":A" + "A" + MIXED[:33]),
    ("twilio-key", "S" + "K" + HEX[:32]),
    ("url-password", "postgres://app:" + "s3cr3t-w0rd" + "@db.internal:5432/app"),
    ("url-password", "redis://:" + "hunter22" + "@cache"),
    ("url-password", "https://bot:" + "%40bc%2Fd" + "@git.internal/x.git"),
    ("vault-token", "hv" + "s." + MIXED[:95]),
    ("xai-key", "xa" + "i-" + MIXED[:80]),
]


@pytest.mark.parametrize(("rule", "text"), SAMPLES, ids=[f"{n}-{rule}" for n, (rule, _) in enumerate(SAMPLES)])
@pytest.mark.parametrize(
    "around", ["{}", "before {} after", '"{}"', "KEY={}", "see {}.", "\n{}\n", "`{}`", "é\u202e({})"]
)
def test_a_credential_is_found_where_it_stands(rule: str, text: str, around: str) -> None:
    whole = around.format(text)
    findings = scan([("content", whole)])
    found = [finding for finding in findings if finding.rule == rule]
    assert len(found) == 1
    assert found[0].field == "content"
    start = whole.index(text)
    assert start <= found[0].offset < start + len(text)


def test_every_rule_has_a_sample_and_a_description() -> None:
    assert {rule for rule, _ in SAMPLES} == set(RULES)
    assert list(RULES) == sorted(RULES)
    for name, description in RULES.items():
        assert name.replace("-", "").isalnum()
        assert name == name.lower()
        assert description
        assert "\n" not in description


def test_every_rule_is_tried_when_its_literal_is_there() -> None:
    """A literal in capitals would never be found in the lowered text."""
    for rule in secrets._RULES.values():
        assert all(literal == literal.lower() for literal in rule.literals)
        assert not rule.exact or rule.literals == (rule.exact.lower(),)
    asked = {literal for _, literals in secrets._by_mark() for literal, _ in literals}
    assert asked == {literal for rule in secrets._RULES.values() for literal in rule.literals}
    assert all(mark in literal for mark, literals in secrets._by_mark() for literal, _ in literals)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "No Firebase API key in the build",
        "apiKey: import.meta.env.VITE_FIREBASE_API_KEY",
        "const apiKey = process.env.OPENAI_API_KEY2 // sk-...",
        "AKIA" + "IOSFODNN7EXAMPLE",
        "aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/" + "bPxRfiCYEXAMPLEKEY",
        "aws_secret_access_key = ${AWS_SECRET_ACCESS_KEY}",
        "AKIAXXXXXXXXXXXXXXXX and ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
        "tokens start with ghp_, sk-ant-, xoxb- or glpat-",
        "xoxb-your-token-goes-here-please",
        "https://hooks.slack.com/services/T00000000/B00000000/XXXXXXXXXXXXXXXXXXXXXXXX",
        "sk_test_4eC39HqLyjWDarjtT1zdp7dc is Stripe's test key",
        "class sk-fading-circle-of-many-words-in-a-long-class-name",
        "task-0123456789abcdef0123456789abcdef",
        "disk-0123456789abcdef0123456789abcdef0123456789abcdef",
        "sk-proj-words-without-any-number-but-rather-long-in-total",
        "The linter skips files that start with -----BEGIN RSA PRIVATE KEY-----, as it should.",
        "-----BEGIN PRIVATE KEY-----\n...\n-----END PRIVATE KEY-----",
        "-----BEGIN PUBLIC KEY-----\nMIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEA",
        "-----BEGIN CERTIFICATE-----\nMIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEA",
        "commit 0123456789abcdef0123456789abcdef01234567",
        "sha256:" + HEX[:64],
        "actor " + HEX[:64],
        "https://example.com/path?user=a:b@c",
        "https://github.com/a/b.git and ssh://git@github.com/a/b and git@github.com:a/b",
        "http://[::1]:8080/ and http://localhost:3000/@scope/name",
        "postgres://user:password@localhost/db and postgres://postgres:postgres@localhost",
        "postgres://$USER:$PASS@host mysql://root:${PW}@db https://a:<token>@h https://a:***@h http://a:%PW%@h",
        "https://alice:opensesame1@www.example.com/ https://a:opensesame1@host.invalid/",
        "Authorization: Bearer $TOKEN",
        "Authorization: Bearer <token>",
        "Authorization: Bearer YOUR_ACCESS_TOKEN_GOES_HERE",
        "Authorization: Bearer process.env.ACCESS_TOKEN_22",
        'headers = {"Authorization": f"Bearer {token}"}',
        "Authorization: token endpoint is /v1/oauth/token",
        "Authorization: Basic authentication is off",
        "Authorization: Basic dXNlcjpwYXNzd29yZA==",  # user:password
        "the privateKey field holds 86 characters",
        '"privateKey": "..."',
        "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9 is a header only",
        "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0."
        + "SflKxwRJSMeKKF2QT4fwpMeJf36POk6yJV_adQssw5c",
        "SG.short.one and hvs.short and dp.pt.short",
        "MASK0123456789abcdef0123456789abcdef",
        "12:AA:BB and time 10:30:AA",
    ],
)
def test_prose_code_and_placeholders_pass(text: str) -> None:
    assert scan([("content", text)]) == []


def test_findings_are_in_the_order_of_fields_and_offsets() -> None:
    first, second = "gh" + "p_" + MIXED[:36], "np" + "m_" + MIXED[:36]
    assert scan([("content", f"{second} {first}"), ("topics[0]", "ok"), ("handoff.blockers[1]", first)]) == [
        Finding("npm-token", "content", 0),
        Finding("github-token", "content", 41),
        Finding("github-token", "handoff.blockers[1]", 0),
    ]


def test_a_refusal_names_rule_field_and_offset_and_never_the_text() -> None:
    token = "gh" + "p_" + MIXED[:36]
    with pytest.raises(HnError) as caught:
        refuse(scan([("content", f"x {token}")]))
    error = caught.value
    assert (error.code, error.field, error.exit_status) == ("secret-found", "content", 1)
    assert "github-token in content at character 2" in error.message
    assert error.hint is not None
    assert "--allow-secret github-token" in error.hint
    assert token[4:] not in f"{error.message} {error.hint}"


def test_many_findings_make_one_short_line() -> None:
    token = "gh" + "p_" + MIXED[:36]
    with pytest.raises(HnError) as caught:
        refuse(scan([("content", f"{token} " * 100)]))
    assert "and 95 more" in caught.value.message
    assert len(caught.value.message) < 500


def test_allowed_rules_pass_and_no_others() -> None:
    findings = scan([("content", "gh" + "p_" + MIXED[:36]), ("topics[0]", "np" + "m_" + MIXED[:36])])
    refuse(findings, ["github-token", "npm-token"])
    refuse(findings, list(RULES))
    refuse([], [])
    with pytest.raises(HnError) as caught:
        refuse(findings, {"github-token"})
    assert caught.value.field == "topics[0]"
    assert "github-token" not in f"{caught.value.message} {caught.value.hint}"


@pytest.mark.parametrize("findings", [[], [Finding("npm-token", "content", 0)]])
def test_an_unknown_allowed_rule_lists_the_rules(findings: list[Finding]) -> None:
    with pytest.raises(UsageError) as caught:
        refuse(findings, ["npm-token", "no-such\nrule"])
    assert caught.value.code == "secret-rule-unknown"
    assert caught.value.hint is not None
    assert all(rule in caught.value.hint for rule in RULES)
    assert "\n" not in caught.value.message


@settings(deadline=None)
@given(st.text(max_size=300))
def test_any_text_can_be_scanned(text: str) -> None:
    for finding in scan([("content", text)]):
        assert finding.rule in RULES
        assert 0 <= finding.offset < len(text)


@settings(deadline=None)
@given(st.text(st.characters(exclude_categories=["L", "N", "Cs"]), max_size=50), st.sampled_from(SAMPLES))
def test_what_stands_around_does_not_hide_a_credential(around: str, sample: tuple[str, str]) -> None:
    rule, text = sample
    # These characters belong to the alphabet of some tokens, or make a longer word of one.
    around = around.translate(dict.fromkeys(map(ord, "-_./+=:@"), " "))
    assert rule in {finding.rule for finding in scan([("content", f"{around} {text} {around}")])}


def hostile() -> list[str]:
    """Texts of 64 KiB that start every rule over and over and never let it finish."""
    starts = {
        literal for rule in secrets._RULES.values() for literal in (*rule.literals, *map(str.upper, rule.literals))
    }
    starts |= {text[: len(text) // 2] for _, text in SAMPLES} | {text[:12] for _, text in SAMPLES}
    starts |= {"eyJ.", "eyJaaaaaaaaa.", "://a:", "-----BEGIN A A A ", "0123456789:", "authorization:bearer "}
    units = [start + fill for start in sorted(starts) for fill in ("", "a" * 50, "_a-" * 500)]
    return [(unit * (65_536 // len(unit) + 1))[:65_536] for unit in units]


def test_the_scan_is_linear_on_hostile_text() -> None:
    scan([("warm", " ".join(text for _, text in SAMPLES))])
    slowest = 0.0
    for text in hostile():
        start = time.process_time()
        scan([("content", text)])
        slowest = max(slowest, time.process_time() - start)
    assert slowest < 1.0


def test_twice_the_text_takes_about_twice_the_time() -> None:
    def cost(size: int) -> float:
        text = ("sk-proj-" + "pypi-AgE-" + "eyJ." + "://a:" + "SG.") * (size // 29)
        start = time.process_time()
        for _ in range(5):
            scan([("content", text)])
        return time.process_time() - start

    cost(1_000)
    assert cost(256_000) < 16 * cost(64_000) + 0.2


def test_importing_and_scanning_plain_text_compiles_nothing() -> None:
    code = (
        "import sys\n"
        "from hn_memory.service import secrets\n"
        "assert secrets.scan([('content', 'A plain note about nothing in particular.')]) == []\n"
        "assert secrets._compiled.cache_info().currsize == 0\n"
        "assert 'base64' not in sys.modules\n"
    )
    path = str(Path(hn_memory.__file__).parents[1])
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": path})
