"""Does a text about to be signed hold a credential? Asked before signing, for what is signed cannot be unsaid.

Only shapes that their issuers made recognisable count: a fixed prefix, or a name right beside the value, and
the issuer's length and alphabet. Nothing is guessed from how random a text looks, so hashes, IDs and prose
pass. The shapes are those that the issuers document for secret scanning and that the rule sets of gitleaks
and detect-secrets collect.

Documented examples (`AKIAIOSFODNN7EXAMPLE`), placeholders (`ghp_xxxx...`, `$TOKEN`, `<token>`) and test keys
of payment services pass.

Time is linear in the text: a rule's pattern runs only where one of its literals occurs, starts with a literal
or a short bounded run, and every repetition is bounded.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import cache

from hn_memory.errors import HnError, UsageError
from hn_memory.values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re
    from typing import Final


class Finding(NamedTuple):
    """A credential's shape in a field. `offset` counts characters from 0. The text itself is not kept."""

    rule: str
    field: str
    offset: int


class Rule(NamedTuple):
    """One shape.

    Attributes:
        description: one line for the help.
        literals: the text holds one of these (in lower case) or the rule is not tried.
        pattern: the shape; a group named `secret` is the part that placeholders are recognised by, else all.
        accept: a further test of the match; None when the shape says it all.
        exact: a literal so short that words hold it; the text holds it as written here or the rule is not tried.
    """

    description: str
    literals: tuple[str, ...]
    pattern: str
    accept: Callable[[re.Match[str]], bool] | None = None
    exact: str = ""


def _has_digit(found: re.Match[str]) -> bool:
    """Words joined by hyphens have the alphabet of some tokens but no digit."""
    return any(character.isdigit() for character in _secret(found))


def _is_literal_password(found: re.Match[str]) -> bool:
    """A URL's password that is spelled out: no variable, no placeholder, not the user's name again."""
    user, password = found["user"].lower(), found["secret"].lower()
    # The hosts that RFC 2606 keeps for documentation.
    example = _is_example_host(found["host"])
    return password != user and not example and not _is_stand_in(password)


def _is_example_host(host: str) -> bool:
    names = host.lower().strip(".").split(".")
    return names[-1] in ("example", "invalid", "test") or (len(names) > 1 and names[-2] == "example")


def _is_literal_header(found: re.Match[str]) -> bool:
    """A header's token that could be one: letters and digits, or `user:password` in base64."""
    token = found["secret"]
    if found["scheme"].lower() != "basic":
        # A dotted name (`process.env.TOKEN_2`) is code that fetches a token; two digits tell one from a path.
        names = token.split(".")
        dotted = len(names) > 1 and all(name.isidentifier() and len(name) <= 32 for name in names)
        return not dotted and len(token) >= 16 and sum(map(str.isdigit, token)) >= 2 and any(map(str.isalpha, token))
    import base64

    try:
        plain = base64.b64decode(token + "=" * (-len(token) % 4), validate=True).decode("utf-8", "replace")
    except ValueError:
        return False
    user, colon, password = plain.lower().partition(":")
    return bool(colon and password) and password != user and not _is_stand_in(password)


# What stands where a secret would. Whole words only: a random token may well contain `pass`.
_STAND_INS: Final = frozenset({
    "changeme", "mypassword", "pass", "passwd", "password", "pw", "pwd", "redacted", "secret", "token",
})  # fmt: skip


def _is_stand_in(text: str) -> bool:
    # `%` opens an escaped character as well as a variable of Windows.
    marked = text[:1] in ("$", "<", "{", "[", "*", ".", "…") or (text[:1] == "%" and text[-1:] == "%")
    return marked or text in _STAND_INS


# No letter or digit before the prefix: `task-...` is no `sk-...`.
_START: Final = "(?<![A-Za-z0-9])"
_END: Final = "(?![A-Za-z0-9])"
_QUOTE: Final = r"\\{0,2}[\"']?"
_ASSIGN: Final = rf"{_QUOTE}\s{{0,4}}(?::|=>?)\s{{0,4}}{_QUOTE}"


def _token(prefix: str, body: str) -> str:
    """A prefix and the possessively matched rest, neither of them inside a longer word."""
    return f"{_START}(?:{prefix})(?P<secret>{body}){_END}"


_RULES: Final[Mapping[str, Rule]] = {
    "age-key": Rule("age secret key", ("age-secret-key-1",), _token("AGE-SECRET-KEY-1", "[0-9A-Z]{58}+")),
    "anthropic-key": Rule("Anthropic API key", ("sk-ant-",), _token("sk-ant-", "[A-Za-z0-9_-]{24,256}+"), _has_digit),
    "atlassian-token": Rule(
        "Atlassian or Bitbucket token",
        ("atatt3", "atctt3", "atbb"),
        _token("AT[AC]TT3[A-Za-z0-9_-]{1,4}|ATBB", "[A-Za-z0-9_=-]{28,512}+"),
        _has_digit,
    ),
    "authorization-header": Rule(
        "Authorization header with its token",
        ("authorization",),
        rf"(?i:authorization){_ASSIGN}(?P<scheme>(?i:bearer|basic|token))\s{{1,4}}"
        r"(?P<secret>[A-Za-z0-9._~+/-]{8,4096}+)",
        _is_literal_header,
    ),
    "aws-access-key": Rule(
        "AWS access key ID", ("akia", "asia", "abia", "acca"), _token("A(?:KI|SI|BI|CC)A", "[A-Z0-9]{16}+")
    ),
    "aws-secret-key": Rule(
        "AWS secret access key beside its name",
        ("secretkey", "secret_key", "secretaccesskey", "secret_access_key"),
        rf"(?i:aws_?secret_?(?:access_?)?key|secret_?access_?key){_ASSIGN}(?P<secret>[A-Za-z0-9/+]{{40}}+){_END}",
    ),
    "azure-storage-key": Rule(
        "Azure storage account key", ("accountkey=",), r"(?i:AccountKey=)(?P<secret>[A-Za-z0-9+/]{86}+==)"
    ),
    "cloudflare-origin-key": Rule(
        "Cloudflare origin CA key", ("v1.0-",), _token(r"v1\.0-", "[a-f0-9]{24}-[a-f0-9]{146}+")
    ),
    "databricks-token": Rule("Databricks token", ("dapi",), _token("dapi", "[a-f0-9]{32}+(?:-[0-9])?")),
    "digitalocean-token": Rule("DigitalOcean token", ("_v1_",), _token("do[oprt]_v1_", "[a-f0-9]{64}+")),
    "discord-webhook": Rule(
        "Discord webhook",
        ("/api/webhooks/",),
        r"discord(?:app)?\.com/api/webhooks/[0-9]{17,20}/(?P<secret>[A-Za-z0-9_-]{60,80}+)",
    ),
    "docker-token": Rule("Docker Hub token", ("dckr_",), _token("dckr_[op]at_", "[A-Za-z0-9_-]{24,64}+")),
    "doppler-token": Rule(
        "Doppler token", ("dp.",), _token(r"dp\.(?:pt|st|ct|sa|scim|audit)\.", r"[A-Za-z0-9_.-]{40,96}+"), _has_digit
    ),
    "github-token": Rule(
        "GitHub token",
        ("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"),
        _token("gh[pousr]_", "[A-Za-z0-9]{36,255}+") + "|" + f"{_START}github_pat_[A-Za-z0-9_]{{82,255}}+",
    ),
    "gitlab-token": Rule(
        "GitLab token",
        ("glpat-", "gldt-", "glptt-", "glrt-", "glft-", "glsoat-", "glimt-", "glagent-", "glcbt-"),
        _token("gl(?:pat|dt|ptt|rt|ft|soat|imt|agent|cbt)-", r"[A-Za-z0-9_.-]{20,300}+"),
        _has_digit,
    ),
    "google-key": Rule("Google API key", ("aiza",), _token("AIza", "[A-Za-z0-9_-]{35}+")),
    "google-oauth": Rule(
        "Google OAuth token or client secret",
        ("ya29.", "gocspx-"),
        _token(r"ya29\.", "[A-Za-z0-9_-]{20,1024}+") + "|" + f"{_START}GOCSPX-[A-Za-z0-9_-]{{28}}+",
    ),
    "grafana-token": Rule(
        "Grafana token", ("glsa_", "glc_"), _token("glsa_", "[A-Za-z0-9]{32}+_[A-Fa-f0-9]{8}+")
        + "|" + f"{_START}glc_eyJ[A-Za-z0-9+/=]{{32,400}}+",
    ),
    "groq-key": Rule("Groq API key", ("gsk_",), _token("gsk_", "[A-Za-z0-9]{52}+")),
    "hn-identity-key": Rule(
        "private key of an hn identity file", ("privatekey",), rf"privateKey{_ASSIGN}(?P<secret>[A-Za-z0-9+/]{{86}}+)"
    ),
    "huggingface-token": Rule("Hugging Face token", ("hf_",), _token("hf_", "[A-Za-z0-9]{34,40}+")),
    "jwt": Rule(
        "signed JSON Web Token",
        ("eyj",),
        r"(?<![A-Za-z0-9_.-])eyJ[A-Za-z0-9_-]{8,2048}+\.eyJ[A-Za-z0-9_-]{8,8192}+\.(?P<secret>[A-Za-z0-9_-]{20,1024}+)",
    ),
    "linear-key": Rule("Linear API key", ("lin_",), _token("lin_(?:api|oauth)_", "[A-Za-z0-9]{40,64}+")),
    "newrelic-key": Rule("New Relic user key", ("nrak-",), _token("NRAK-", "[A-Z0-9]{27}+")),
    "notion-token": Rule(
        "Notion token", ("secret_", "ntn_"), _token("secret_|ntn_", "[A-Za-z0-9]{43,50}+"), _has_digit
    ),
    "npm-token": Rule("npm token", ("npm_",), _token("npm_", "[A-Za-z0-9]{36}+")),
    "openai-key": Rule(
        "OpenAI (or compatible) API key",
        ("sk-",),
        _token("sk-(?:proj|svcacct|admin|None)-", "[A-Za-z0-9_-]{40,256}+")
        + "|" + f"{_START}sk-(?:or-v1-)?[A-Za-z0-9]{{32,64}}+(?![A-Za-z0-9_-])",
        _has_digit,
    ),
    "planetscale-token": Rule(
        "PlanetScale token or password", ("pscale_",), _token("pscale_(?:tkn|pw|oauth)_", r"[A-Za-z0-9_.=-]{32,64}+")
    ),
    "postman-key": Rule("Postman API key", ("pmak-",), _token("PMAK-", "[a-f0-9]{24}-[a-f0-9]{34}+")),
    "private-key": Rule(
        "private key in PEM or OpenPGP armour",
        ("private key",),
        r"-----BEGIN (?:[A-Z0-9]{1,16} ){0,3}PRIVATE KEY(?: BLOCK)?-----[^A-Za-z0-9]{0,24}"
        r"(?:[nr][^A-Za-z0-9]{0,24}){0,2}"
        r"(?:(?:Proc-Type|DEK-Info|Version|Comment|Hash|Charset): |(?P<secret>[A-Za-z0-9+/]{24}))",
    ),
    "pypi-token": Rule("PyPI token", ("pypi-ag",), _token("pypi-AgE", "[A-Za-z0-9_-]{50,1024}+")),
    "replicate-token": Rule("Replicate token", ("r8_",), _token("r8_", "[A-Za-z0-9]{37}+")),
    "rubygems-key": Rule("RubyGems API key", ("rubygems_",), _token("rubygems_", "[a-f0-9]{48}+")),
    "sendgrid-key": Rule(
        "SendGrid API key", ("sg.",), _token(r"SG\.", r"[A-Za-z0-9_-]{16,32}+\.[A-Za-z0-9_-]{32,64}+")
    ),
    "sentry-token": Rule(
        "Sentry token", ("sntry",), _token("sntryu_", "[a-f0-9]{64}+")
        + "|" + f"{_START}sntrys_eyJ[A-Za-z0-9+/=_-]{{40,400}}+",
    ),
    "shopify-token": Rule("Shopify token or secret", ("shp",), _token("shp(?:at|ca|pa|ss)_", "[A-Fa-f0-9]{32}+")),
    "slack-token": Rule(
        "Slack token",
        ("xox", "xapp-"),
        _token("xox[abeoprs]-|xoxe[.-]xox[bp]-|xapp-", "[A-Za-z0-9-]{20,300}+"),
        _has_digit,
    ),
    "slack-webhook": Rule(
        "Slack webhook",
        ("hooks.slack.com/",),
        r"hooks\.slack\.com/(?:services|workflows|triggers)/(?P<secret>[A-Za-z0-9+/]{40,64}+)",
    ),
    "stripe-key": Rule(
        "Stripe live key", ("k_live_", "whsec_"), _token("[sr]k_live_|whsec_", "[A-Za-z0-9+/=]{16,256}+"), _has_digit
    ),
    "supabase-key": Rule(
        "Supabase secret key", ("sb_secret_", "sbp_"), _token("sb_secret_", "[A-Za-z0-9_-]{31,64}+")
        + "|" + f"{_START}sbp_[a-f0-9]{{40}}+{_END}",
    ),
    "telegram-token": Rule(
        "Telegram bot token", (":aa",), _token("[0-9]{8,10}:", "AA[A-Za-z0-9_-]{33}+")
    ),
    "twilio-key": Rule("Twilio API key", ("sk",), _token("SK", "[a-f0-9]{32}+"), exact="SK"),
    "url-password": Rule(
        "URL with a user and password",
        ("://",),
        r"(?<=[A-Za-z0-9])://(?P<user>[^\s/:@?#\"'<>`]{0,128}+):(?P<secret>[^\s/@?#\"'<>`]{3,256}+)"
        r"@(?P<host>[A-Za-z0-9.\[:-]{1,253}+)",
        _is_literal_password,
    ),
    "vault-token": Rule(
        "HashiCorp Vault token", ("hvs.", "hvb.", "hvr."), _token(r"hv[sbr]\.", "[A-Za-z0-9_-]{24,300}+")
    ),
    "xai-key": Rule("xAI API key", ("xai-",), _token("xai-", "[A-Za-z0-9]{80}+")),
}  # fmt: skip

RULES: Final[Mapping[str, str]] = {name: rule.description for name, rule in _RULES.items()}

# Of a documented example or a template. A random token of 40 characters holds the shortest of these by
# chance less than once in a hundred thousand times.
_EXAMPLES: Final = ("example", "placeholder", "redacted", "xxxxx", "your_", "your-", "yourtoken")
# The token on jwt.io, in everybody's documentation.
_JWT_EXAMPLE: Final = "SflKxwRJSMeKKF2QT4fwpMeJf36POk6yJV_adQssw5c"
_SHOWN_FINDINGS: Final = 5


def scan(fields: Iterable[tuple[str, str]]) -> list[Finding]:
    """All credential shapes in the given (name, text) fields, by field in the given order, then by offset."""
    fields = list(fields)
    # Nearly every record is clean, and one look over all its text says which few rules may be broken.
    written = "\n".join([text for _, text in fields])
    everything = written.lower()
    suspected = {
        name
        for mark, literals in _by_mark()
        if mark in everything
        for literal, names in literals
        if literal in everything
        for name in names
        if _RULES[name].exact in written
    }
    if not suspected:
        return []
    findings: list[Finding] = []
    for field, text in fields:
        found = [Finding(rule, field, offset) for rule, offset in _scan_text(text, suspected)]
        findings.extend(sorted(found, key=lambda finding: (finding.offset, finding.rule)))
    return findings


def refuse(findings: Iterable[Finding], allowed: Collection[str] = ()) -> None:
    """Refuse to sign what was found, but for the rules that the author allowed by name.

    Raises:
        UsageError `secret-rule-unknown`: an allowed rule does not exist; also when nothing was found.
        HnError `secret-found`: names rules, fields and offsets, never the text. `field` is the first one's.
    """
    for name in allowed:
        if name not in RULES:
            raise UsageError(
                "secret-rule-unknown",
                f"there is no secret rule {name[:64]!a}",
                hint=f"Rules: {', '.join(RULES)}.",
                field="allow-secret",
            )
    left = [finding for finding in findings if finding.rule not in allowed]
    if not left:
        return
    places = [f"{rule} in {field} at character {offset}" for rule, field, offset in left[:_SHOWN_FINDINGS]]
    if len(left) > _SHOWN_FINDINGS:
        places.append(f"and {len(left) - _SHOWN_FINDINGS} more")
    rules = " ".join(f"--allow-secret {rule}" for rule in sorted({finding.rule for finding in left}))
    raise HnError(
        "secret-found",
        f"the text looks like it holds a credential: {'; '.join(places)}",
        hint=f"A signed memory cannot be unsaid: take the credential out. If it is none: {rules}.",
        field=left[0].field,
    )


def _scan_text(text: str, names: Iterable[str]) -> Iterator[tuple[str, int]]:
    for name in names:
        rule = _RULES[name]
        for found in _compiled(name).finditer(text):
            if not _is_example(_secret(found)) and (rule.accept is None or rule.accept(found)):
                yield name, found.start()


# Digits and signs, then letters, in the order of how seldom prose holds them.
_SELDOM: Final = "=_/:0123456789-.zqxjkvbpygfwmucldrhsniotae "


@cache
def _by_mark() -> tuple[tuple[str, tuple[tuple[str, tuple[str, ...]], ...]], ...]:
    """The literals by the one of their characters that is met least: without it none of them needs a look."""
    marks: dict[str, list[tuple[str, tuple[str, ...]]]] = {}
    for literal, names in _by_literal():
        marks.setdefault(min(literal, key=_SELDOM.find), []).append((literal, names))
    return tuple((mark, tuple(literals)) for mark, literals in marks.items())


@cache
def _by_literal() -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Every literal and the rules that ask for it."""
    names: dict[str, list[str]] = {}
    for name, rule in _RULES.items():
        for literal in rule.literals:
            names.setdefault(literal, []).append(name)
    return tuple((literal, tuple(asking)) for literal, asking in names.items())


@cache
def _compiled(name: str) -> re.Pattern[str]:
    import re

    return re.compile(_RULES[name].pattern)


def _secret(found: re.Match[str]) -> str:
    """The part that is secret: the group of that name where it took part, else the whole."""
    secret: str | None = found.groupdict().get("secret")
    return found[0] if secret is None else secret


def _is_example(secret: str) -> bool:
    lowered = secret.lower()
    return secret == _JWT_EXAMPLE or len(set(lowered)) <= 2 or any(word in lowered for word in _EXAMPLES)
