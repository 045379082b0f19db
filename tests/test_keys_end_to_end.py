"""Keys with real processes: a client and a trainer join with theirs, and a client is cut at once when its key
is revoked."""

import json
import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest
from free_ports import free_base_port
from in_process import azplay_here
from parts import PATIENCE, command
from process_marks import wait_for
from target import ROOT

from azselfplay.host.exits import Exit

pytestmark = pytest.mark.timeout(1200)


def call(name: str, *words: str, code: int = 0) -> str:
    argv = command(name, *words)
    done = subprocess.run(argv, capture_output=True, text=True, cwd=ROOT, timeout=PATIENCE, check=False)
    assert done.returncode == code, done.stderr
    return done.stdout + done.stderr


@contextmanager
def running(log: Path, *argv: str) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("wb") as file:
        process = subprocess.Popen(argv, stdout=file, stderr=file, cwd=ROOT, env=os.environ)
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def server_key(log: Path) -> str | None:
    """Return the key that azserver logs once clients can join, or None before that."""
    found = re.search(r"to join: azclient.*--server-key '?([^'\s]{40})", log.read_text())
    return found and found[1]


def said_of_processes() -> bytes:
    """Return the command lines and environments of all processes that this user may read."""
    found = b""
    for process in Path("/proc").glob("[0-9]*"):
        for file in ("cmdline", "environ"):
            with suppress(OSError):
                found += (process / file).read_bytes()
    return found


def said_on_disk(folder: Path, keys: set[Path]) -> bytes:
    """Return the contents of all files in the folder except key files."""
    files = [path for path in folder.rglob("*") if path.is_file() and path not in keys]
    return b"".join(path.read_bytes() for path in files)


def test_clients_and_trainer_join_with_their_keys_until_one_is_revoked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    keys, port = tmp_path / "keys", free_base_port()
    files = {role: tmp_path / f"{role}.key" for role in ("client", "trainer")}
    call("azserver", "keygen", "--keys", str(keys))
    for role, file in files.items():
        said = call("azclient", "keygen", "--key", str(file), *(["--trainer"] if role == "trainer" else []))
        (key,) = re.findall(r"azserver allow \w+ \S+ '?([^'\n]+)'?", said)
        call("azserver", "allow", "--keys", str(keys), role, f"the-{role}", key)
    runs, address = tmp_path / "runs", f"127.0.0.1:{port}"
    log = {name: tmp_path / f"{name}.log" for name in ("server", "client", "trainer")}
    server = command(
        "azserver",
        *("--game", "tic_tac_toe", "--net", "tiny", "--gpus", "cpu", "--cpu-threads", "1", "--workers", "0"),
        *("--run", "r", "--runs", str(runs), "--port", str(port), "--listen", "0.0.0.0", "--keys", str(keys)),
        *("--self-play.search.simulations", "8"),
    )

    azplay = azplay_here(monkeypatch, capsys)

    def figures() -> dict:
        done = azplay("status", str(runs / "r"), "--json")
        return json.loads(done.stdout)["figures"] if done.stdout.startswith("{") else {}

    key_files = {*files.values(), keys / "server.key"}
    secrets = [re.findall(rb'secret = "(.+)"', file.read_bytes()) for file in key_files]

    with ExitStack() as stack:
        stack.enter_context(running(log["server"], *server))
        wait_for(lambda: server_key(log["server"]) is not None, log["server"].read_text)
        dial = ("--server", address, "--server-key", server_key(log["server"]))
        trainer = command("trainer", *dial, "--key", str(files["trainer"]), "--runs", str(tmp_path / "mine"))
        stack.enter_context(running(log["trainer"], *trainer))
        one = ("--device", "remote", "--workers", "1", "--spool", str(tmp_path / "spool"))
        client = command("azclient", *dial, "--key", str(files["client"]), *one)
        playing = stack.enter_context(running(log["client"], *client))
        mine = tmp_path / "mine"
        wait_for(lambda: figures().get("games_acked", 0) > 0, lambda: str(figures()))
        keyed = {"the-client", "the-trainer", "this server"}
        wait_for(lambda: figures().get("keys", {}).keys() == keyed, lambda: str(figures()))
        seen = said_of_processes()
        assert all(str(file).encode() in seen for file in files.values()), "names of files may be seen"
        seen += json.dumps(figures()).encode()
        held = azplay("players", str(mine / "r"), "--quarantine", "keys/the-client").stdout
        assert re.match(r"keys/the-client: in quarantine, [1-9]\d* games", held), "its games are the key's"

        refused = call("azclient", "--server", address, *one, code=Exit.REFUSED)
        assert "azclient keygen" in refused
        call("azserver", "revoke", "--keys", str(keys), "the-client")
        wait_for(lambda: playing.poll() is not None, log["client"].read_text)
        assert playing.returncode == Exit.REFUSED
        assert (
            "not allowed here any more" in log["client"].read_text()
            or "azserver allow client" in log["client"].read_text()
        )
        alone = {"workers": 0, "clients": 0, "trainer": 1}
        wait_for(lambda: figures().get("sessions") == alone, lambda: str(figures()))
    seen += said_on_disk(tmp_path, key_files)
    assert b"the-client" in seen
    assert [one in seen for (one,) in secrets] == [False, False, False]
