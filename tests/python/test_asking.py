"""Databases of somebody else's are asked as their owner, and by names that stay names."""

from __future__ import annotations

import base64
import json
import os
import socket
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from flashwright import RunError
from flashwright.recording import asking
from flashwright.recording.owners import sqlite_pages
from flashwright.recording.running import Running, _relations
from flashwright.workloads.databases.server import Server, psycopg, server_account
from flashwright.workloads.supervisor import Supervisor
from recordings import require
from servers import find_server

NAMES = (
    "a=b",
    "host=127.0.0.1 port=1",
    "postgresql://127.0.0.1:1/x?user=y",
    "it's",
    "back\\slash\\",
    " two  spaces ",
    "line\nend",
    'quo"te',
    "Straße",
    "",
)
"""Names of databases; the last one stands for bytes that are no UTF-8."""
NO_UTF8 = b"byte\xff\xfe"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """Give a server of another user's."""
    require(os.geteuid() == 0, "asking as another user needs root")
    binaries = find_server()
    with Supervisor() as supervisor:
        folder = supervisor.folder(Path("/tmp"), "asked-", 0o755)  # noqa: S108
        made = Server(binaries, folder / "data", folder / "run", supervisor, server_account())
        made.initialise()
        made.start({"shared_buffers": "1MB", "fsync": "off"})
        yield made
        made.stop()


@pytest.fixture(autouse=True)
def role(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGUSER", "flashwright")


def in_database(server: Server, name: bytes, *statements: str | bytes) -> None:
    """Run statements in a database of any name."""
    pq = psycopg().pq
    quoted = name.replace(b"\\", b"\\\\").replace(b"'", b"\\'")
    connection = pq.PGconn.connect(server.conninfo.encode() + b" dbname='" + quoted + b"'")
    assert connection.status == pq.ConnStatus.OK, connection.error_message
    for statement in statements:
        sql = statement.encode() if isinstance(statement, str) else statement
        result = connection.exec_(sql)
        assert result.status in (pq.ExecStatus.COMMAND_OK, pq.ExecStatus.TUPLES_OK), (
            result.error_message
        )
    connection.finish()


def make_database(server: Server, name: bytes, at: bytes = b"postgres") -> None:
    quoted = name.replace(b'"', b'""')
    in_database(server, at, b'CREATE DATABASE "' + quoted + b'" TEMPLATE template0')


def test_a_name_of_a_database_stays_a_name(server: Server) -> None:
    """Also `host=... port=...`, which sent root's password elsewhere."""
    names = [name.encode() or NO_UTF8 for name in NAMES]
    server.query("CREATE DATABASE bytes TEMPLATE template0 ENCODING sql_ascii")
    for number, name in enumerate(names):
        make_database(server, name, at=b"bytes")
        in_database(server, name, f"CREATE TABLE table_{number} ()")
    found, refused = _relations(server.data)
    assert not refused
    tables = {named.name for named in found.values() if named.name and named.name[:6] == "table_"}
    assert tables == {f"table_{number}" for number in range(len(names))}


def test_a_database_that_refuses_keeps_no_other_from_telling(server: Server) -> None:
    make_database(server, b"a=b\x1b")
    server.query("CREATE ROLE asker LOGIN")
    server.query('REVOKE CONNECT ON DATABASE "a=b\x1b" FROM PUBLIC')
    server.query("CREATE TABLE t ()")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PGUSER", "asker")
        found, refused = _relations(server.data)
    assert "t" in {named.name for named in found.values()}
    assert len(refused) == 1
    assert "a=b\\x1b" in refused[0]
    assert "permission denied" in refused[0]
    assert "\n" not in refused[0]
    assert "\x1b" not in refused[0]


def test_functions_of_a_databases_owner_are_not_called(server: Server) -> None:
    """They would run with the rights of the server's superuser."""
    make_database(server, b"trap")
    in_database(
        server,
        b"trap",
        "CREATE TABLE called (n int)",
        "CREATE FUNCTION pg_relation_filepath(oid) RETURNS text LANGUAGE plpgsql AS "
        "$$ BEGIN INSERT INTO public.called VALUES (1); RETURN 'base/1/1'; END $$",
        "CREATE FUNCTION pg_relation_filepath(regclass) RETURNS text LANGUAGE plpgsql AS "
        "$$ BEGIN INSERT INTO public.called VALUES (2); RETURN 'base/1/2'; END $$",
        "ALTER DATABASE trap SET search_path = public, pg_catalog",
    )
    found, refused = _relations(server.data)
    assert not refused
    assert "base/1/1" not in found
    assert "called" in {named.name for named in found.values()}
    in_database(server, b"trap", "DO $$ BEGIN ASSERT 0 = (SELECT count(*) FROM called); END $$")


def test_variables_of_ours_do_not_lead_it(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (
        ("PGHOST", "127.0.0.1"),
        ("PGHOSTADDR", "127.0.0.1"),
        ("PGPORT", "1"),
        ("PGDATABASE", "nowhere"),
        ("PGSERVICE", "none"),
        ("PGOPTIONS", "-c nonsense=1"),
        ("PGPASSWORD", "secret"),
    ):
        monkeypatch.setenv(name, value)
    _, refused = _relations(server.data)
    assert not refused


class Listener:
    """A server of PostgreSQL's protocol that asks for a password, and keeps what it is sent."""

    def __init__(self, folder: Path, uid: int, answer: bytes = b"") -> None:
        self.got = bytearray()
        self.peers: list[int] = []
        self.path = folder / ".s.PGSQL.5432"
        self._answer = answer
        # The kernel keeps who called listen.
        ready, child = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        program = (
            "import os, socket, sys; fd = int(sys.argv[1]); "
            "os.setresuid(*[int(sys.argv[3])] * 3); s = socket.socket(socket.AF_UNIX); "
            "s.bind(sys.argv[2]); s.listen(); os.chmod(sys.argv[2], 0o777); "
            "socket.send_fds(socket.socket(fileno=fd), [b'x'], [s.fileno()])"
        )
        folder.chmod(0o777)
        subprocess.run(
            [sys.executable, "-c", program, str(child.fileno()), str(self.path), str(uid)],
            pass_fds=[child.fileno()],
            check=True,
        )
        _, fds, _, _ = socket.recv_fds(ready, 1, 1)
        self._socket = socket.socket(fileno=fds[0])
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._socket.accept()
            except OSError:
                return
            with client:
                credentials = client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
                self.peers.append(int.from_bytes(credentials[4:8], sys.byteorder))
                client.settimeout(20)
                try:
                    while part := client.recv(65536):
                        self.got += part
                        if self._answer:
                            client.sendall(self._answer)
                except OSError:
                    continue

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join(30)


@pytest.fixture
def claimed(tmp_path: Path) -> Iterator[Callable[[int, bytes], tuple[Path, Listener]]]:
    """Give what makes a data directory of `nobody` whose server is a listener of a user's."""
    require(os.geteuid() == 0, "another user's files need root")
    made: list[Listener] = []
    with Supervisor() as supervisor:
        folder = supervisor.folder(Path("/tmp"), "claim-", 0o755)  # noqa: S108

        def make(uid: int, answer: bytes) -> tuple[Path, Listener]:
            data, sockets = folder / "data", folder / "s"
            data.mkdir()
            sockets.mkdir()
            listener = Listener(sockets, uid, answer)
            made.append(listener)
            (data / "postmaster.pid").write_text(f"1\n{data}\n0\n5432\n{sockets}\n")
            for path in (data, data / "postmaster.pid"):
                os.chown(path, 65534, 65534)
            return data, listener

        yield make
        for one in made:
            one.close()


def test_a_socket_of_another_user_is_sent_nothing(
    claimed: Callable[[int, bytes], tuple[Path, Listener]],
) -> None:
    """A server that is down leaves the name of its socket to everybody in /tmp."""
    data, listener = claimed(1, b"")
    with pytest.raises(RunError, match="requirepeer"):
        _relations(data)
    assert listener.got == b""


def test_who_asks_is_the_owner_and_has_no_password_of_ours(
    claimed: Callable[[int, bytes], tuple[Path, Listener]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPASSWORD", "topsecret")
    # AuthenticationCleartextPassword.
    data, listener = claimed(65534, b"R\0\0\0\x08\0\0\0\x03")
    with pytest.raises(RunError, match="no password supplied"):
        _relations(data)
    assert listener.peers
    assert set(listener.peers) == {65534}
    assert b"topsecret" not in listener.got


def test_an_answer_that_is_none_gives_one_line(
    claimed: Callable[[int, bytes], tuple[Path, Listener]],
) -> None:
    data, _ = claimed(65534, b"\x1b]0;title\x07\nHTTP/1.0 400 no\r\n\r\n")
    running = Running("postgres", data)
    running.names()
    (said,) = running.not_told
    assert said.isprintable()


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ("1\n/\n0\n5432\nhost.example\n", "no folder of a Unix socket"),
        ("1\n/\n0\n5432\n/tmp,evil.example\n", "no folder of a Unix socket"),
        ("1\n/\n0\n5432\n\n127.0.0.1\n", "no folder of a Unix socket"),
        ("1\n/\n0\n5432 hostaddr=1.2.3.4\n/tmp\n", "line 4 is no port"),
        ("1\n/\n0\n\u0665\n/tmp\n", "line 4 is no port"),
        ("1\n", "line 4 is no port"),
    ],
)
def test_where_its_server_is_may_be_a_socket_alone(tmp_path: Path, lines: str, said: str) -> None:
    require(os.geteuid() == 0, "another user's files need root")
    (tmp_path / "postmaster.pid").write_text(lines)
    for path in (tmp_path, tmp_path / "postmaster.pid"):
        os.chown(path, 65534, 65534)
    with pytest.raises(RunError, match=said) as raised:
        _relations(tmp_path)
    assert "\n" not in str(raised.value)


PROBE = """
import json, os, sys
asked = json.load(sys.stdin)
sys.path.insert(0, os.path.dirname(os.path.dirname(asked["program"])))
import importlib.util
spec = importlib.util.spec_from_file_location("owner_asks", asked["program"])
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
module.become(asked["uid"], asked["gid"])
status = open("/proc/self/status").read().splitlines()
json.dump({
    "ids": [line.split()[1:] for line in status if line[:4] in ("Uid:", "Gid:")],
    "groups": os.getgroups(),
    "capabilities": [line.split()[1] for line in status if line.startswith(("CapE", "CapP"))],
    "environment": dict(os.environ), "folder": os.getcwd(),
}, sys.stdout)
"""


def test_it_has_no_more_rights_than_the_owner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    require(os.geteuid() == 0, "another user's rights need root")
    probe = tmp_path / "probe.py"
    probe.write_text(PROBE)
    monkeypatch.setenv("SECRET_TOKEN", "secret")
    monkeypatch.setenv("LD_PRELOAD", "")
    program = str(asking._PROGRAM)
    monkeypatch.setattr(asking, "_PROGRAM", probe)
    found = asking.ask(65534, "anything", program=program)
    assert found["ids"] == [["65534"] * 4, ["65534"] * 4]
    assert found["groups"] == []
    assert {int(one, 16) for one in found["capabilities"]} == {0}
    # Python itself adds its encoding.
    assert set(found["environment"]) <= {"PATH", "LANG", "LC_ALL", "LC_MESSAGES", "TZ", "LC_CTYPE"}
    assert found["folder"] == "/"


@pytest.mark.parametrize(
    "answer",
    [
        "no json",
        "[]",
        json.dumps({"pages": 5}),
        json.dumps({"pages": "??", "names": [], "page_bytes": 1}),
        json.dumps({"pages": "AAAA", "names": [["t", "heap"]], "page_bytes": 4096}),
        json.dumps(
            {
                "pages": base64.b64encode((7).to_bytes(4, sys.byteorder)).decode(),
                "names": [["t", "heap"]],
                "page_bytes": 4096,
            }
        ),
        json.dumps({"pages": "", "names": [["t", "worse"]], "page_bytes": 4096}),
        json.dumps({"rows": [{"path": "x"}], "not_told": [], "pages": "A"}),
        json.dumps({"error": "two\nlines \x1b[2J"}),
    ],
)
def test_a_malformed_answer_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: str
) -> None:
    program = tmp_path / "answers.py"
    program.write_text(f"import sys; sys.stdin.read(); sys.stdout.write({answer!r})")
    monkeypatch.setattr(asking, "_PROGRAM", program)
    database = tmp_path / "some.db"
    database.touch()
    with pytest.raises(RunError) as raised:
        sqlite_pages(database)
    assert str(raised.value).isprintable()


@pytest.mark.parametrize(
    "answer",
    [
        {},
        {"rows": 5, "not_told": []},
        {"rows": ["row"], "not_told": []},
        {"rows": [{"path": "base/1/1"}], "not_told": []},
        {"rows": [{"oid": "one", "schema": "s"}], "not_told": []},
        {"rows": []},
    ],
)
def test_a_malformed_answer_of_postgres_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: dict[str, Any]
) -> None:
    require(os.geteuid() == 0, "another user's files need root")
    program = tmp_path / "answers.py"
    program.write_text(f"import sys; sys.stdin.read(); sys.stdout.write({json.dumps(answer)!r})")
    monkeypatch.setattr(asking, "_PROGRAM", program)
    (tmp_path / "postmaster.pid").write_text("1\n/\n0\n5432\n/tmp\n")
    for path in (tmp_path, tmp_path / "postmaster.pid"):
        os.chown(path, 65534, 65534)
    with pytest.raises(RunError, match="none that a server gives") as raised:
        _relations(tmp_path)
    assert str(raised.value).isprintable()


def test_a_database_of_sqlite_is_read_as_its_owner(tmp_path: Path) -> None:
    """Whoever owns it may put a link where it is: root would follow."""
    require(os.geteuid() == 0, "another user's files need root")
    secret, folder = tmp_path / "secret.db", tmp_path / "of_nobody"
    for parent in (tmp_path, *tmp_path.parents[:-2]):
        parent.chmod(0o755)
    with closing(sqlite3.connect(secret)) as connection:
        connection.execute("CREATE TABLE of_root (k)")
    secret.chmod(0o600)
    folder.mkdir()
    link = folder / "app.db"
    link.symlink_to(secret)
    os.chown(folder, 65534, 65534)
    os.chown(link, 65534, 65534, follow_symlinks=False)
    with pytest.raises(RunError, match="unable to open"):
        sqlite_pages(link)
    link.unlink()
    with closing(sqlite3.connect(link)) as connection:
        connection.execute("CREATE TABLE of_nobody (k)")
    os.chown(link, 65534, 65534)
    found = sqlite_pages(link)
    assert found is None or "of_nobody" in found.names
