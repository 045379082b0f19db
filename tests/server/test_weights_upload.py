"""Uploaded weights: only whole files with the right hash and a newer version are stored."""

from __future__ import annotations

import hashlib
import os
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest

from protocol.errors import Code
from protocol.messages import CHUNK, Chunk, Refused, WeightsInfo, WeightsWanted
from runtime.exits import Exit, Fatal
from server.upload import Append, Begin, Discard, Reply, Store, WeightsUpload
from server.weights import WeightsStore, surplus

DATA = bytes(range(256)) * 5000
SHA = hashlib.sha256(DATA).digest()
INFO = WeightsInfo(2, 100, SHA, len(DATA), "chess")
OLDER = WeightsInfo(1, 50, b"o" * 32, 10, "chess")
PIECES = [(offset, DATA[offset : offset + CHUNK]) for offset in range(0, len(DATA), CHUNK)]


def begun() -> WeightsUpload:
    upload = WeightsUpload("chess")
    assert upload.offer(INFO, OLDER, kept=False) == [Begin(SHA), Reply(WeightsWanted(SHA, 0))]
    return upload


def send_all(upload: WeightsUpload) -> list:
    return [upload.chunk(Chunk(SHA, offset), data) for offset, data in PIECES]


def refusal(instructions: list) -> Refused:
    message = instructions[-1].message
    assert isinstance(message, Refused)
    return message


def test_each_chunk_is_kept_and_acknowledged_and_the_last_one_stores_the_file() -> None:
    upload = begun()
    *middle, last = send_all(upload)
    assert middle == [[Append(SHA), Reply(WeightsWanted(SHA, end))] for end in (CHUNK, 2 * CHUNK)]
    assert last == [Append(SHA), Store(INFO)]
    assert upload.stored() == [Reply(WeightsWanted(SHA, len(DATA)))]


def test_a_chunk_out_of_order_is_answered_with_the_offset_that_is_wanted() -> None:
    upload = begun()
    upload.chunk(Chunk(SHA, 0), PIECES[0][1])
    assert upload.chunk(Chunk(SHA, 2 * CHUNK), b"late") == [Reply(WeightsWanted(SHA, CHUNK))]
    assert upload.chunk(Chunk(SHA, 0), PIECES[0][1]) == [Reply(WeightsWanted(SHA, CHUNK))]


def test_the_same_weights_offered_again_go_on_where_they_were() -> None:
    upload = begun()
    upload.chunk(Chunk(SHA, 0), PIECES[0][1])
    assert upload.offer(INFO, OLDER, kept=False) == [Reply(WeightsWanted(SHA, CHUNK))]


def test_weights_that_are_stored_already_are_acknowledged_without_sending_them() -> None:
    upload = WeightsUpload("chess")
    assert upload.offer(INFO, INFO, kept=True) == [Reply(WeightsWanted(SHA, len(DATA)))]
    newer = msgspec.structs.replace(INFO, version=3)
    assert upload.offer(newer, INFO, kept=True) == [Store(newer)]


def test_bytes_with_another_hash_are_thrown_away() -> None:
    upload = begun()
    for offset, data in PIECES[:-1]:
        upload.chunk(Chunk(SHA, offset), data)
    offset, data = PIECES[-1]
    instructions = upload.chunk(Chunk(SHA, offset), bytes(len(data)))
    assert instructions[0] == Discard(SHA)
    assert refusal(instructions).code == Code.WEIGHTS_REFUSED


@pytest.mark.parametrize("version", [1, 0])
def test_a_version_that_is_not_newer_is_refused_with_the_version_that_is_current(version: int) -> None:
    info = msgspec.structs.replace(INFO, version=version)
    refused = refusal(WeightsUpload("chess").offer(info, OLDER, kept=False))
    assert refused.code == Code.WEIGHTS_REFUSED
    assert "which is 1" in refused.reason


def test_weights_of_another_game_are_refused() -> None:
    info = msgspec.structs.replace(INFO, game="shogi")
    assert "shogi" in refusal(WeightsUpload("chess").offer(info, OLDER, kept=False)).reason


def test_a_chunk_beyond_the_end_ends_the_upload() -> None:
    upload = begun()
    for offset, data in PIECES[:-1]:
        upload.chunk(Chunk(SHA, offset), data)
    instructions = upload.chunk(Chunk(SHA, PIECES[-1][0]), PIECES[-1][1] + b"x")
    assert instructions[0] == Discard(SHA)
    assert refusal(upload.chunk(Chunk(SHA, 0), b"x")).code == Code.WEIGHTS_REFUSED


def test_a_full_disk_asks_the_trainer_to_come_back() -> None:
    upload = begun()
    refused = refusal(upload.failed("No space left on device"))
    assert (refused.code, refused.retry_after > 0) == (Code.BUSY, True)


def test_other_weights_take_the_place_of_an_upload_under_way() -> None:
    upload = begun()
    other = msgspec.structs.replace(INFO, version=3, sha256=b"n" * 32)
    assert upload.offer(other, OLDER, kept=False)[:2] == [Discard(SHA), Begin(b"n" * 32)]


def test_an_uploaded_file_is_kept_by_its_hash_and_survives_opening_again(tmp_path: Path) -> None:
    store = WeightsStore(tmp_path, "chess")
    store.begin(SHA)
    for _, data in PIECES:
        store.append(SHA, data)
    store.finish(INFO)
    store.adopt(INFO)
    again = WeightsStore(tmp_path, "chess")
    assert again.open() == INFO
    assert b"".join(again.chunk(SHA, offset) or b"" for offset, _ in PIECES) == DATA


def test_files_sort_by_version_and_newest_names_the_current_one(tmp_path: Path) -> None:
    store = WeightsStore(tmp_path, "chess")
    for version in (9, 10, 100):
        info = store.add(bytes([version]), version, 0, "tiny")
    assert [path.stem for path in sorted(tmp_path.glob("*.safetensors"))] == [
        f"{version:06d}-{hashlib.sha256(bytes([version])).hexdigest()[:8]}" for version in (9, 10, 100)
    ]
    newest = tmp_path / "newest"
    assert newest.readlink() == Path(store.path(info).name)
    store.add(b"better", 101, 0, "tiny")
    assert newest.read_bytes() == b"better"


def test_a_folder_of_files_named_by_their_hash_alone_goes_on(tmp_path: Path) -> None:
    store = WeightsStore(tmp_path, "chess")
    store.adopt(INFO)
    (tmp_path / f"{SHA.hex()}.safetensors").write_bytes(DATA)
    again = WeightsStore(tmp_path, "chess")
    assert again.open() == INFO
    assert again.has(INFO)
    assert again.chunk(SHA, 0) == DATA[:CHUNK]
    assert (tmp_path / "newest").read_bytes() == DATA
    again.add(b"newer", 3, 200, "tiny")
    again.forget(INFO)
    assert not again.has(INFO)


def test_a_new_run_has_no_weights_and_an_unknown_file_no_chunks(tmp_path: Path) -> None:
    store = WeightsStore(tmp_path, "chess")
    assert store.open() is None
    assert store.chunk(SHA, 0) is None


def test_a_damaged_file_is_found_at_start(tmp_path: Path) -> None:
    store = WeightsStore(tmp_path, "chess")
    info = store.add(b"good bytes", 0, 0, "tiny")
    store.path(info).write_bytes(b"evil bytes")
    with pytest.raises(Fatal, match="is damaged") as caught:
        WeightsStore(tmp_path, "chess").open()
    assert caught.value.code == Exit.BAD_DATA


def test_only_the_newest_files_are_kept(tmp_path: Path) -> None:
    store = WeightsStore(tmp_path, "chess", kept=2, past=0)
    infos = [store.add(bytes([version]), version, 0, "tiny") for version in range(4)]
    assert [store.has(info) for info in infos] == [False, False, True, True]
    assert store.open() == infos[-1]


def test_older_files_stay_spread_over_the_run_with_the_first(tmp_path: Path) -> None:
    """Of 64 publications, one a second, 4 older ones stay: the first, and others at wide intervals."""
    store = WeightsStore(tmp_path, "chess", kept=2, past=4)
    infos = []
    for version in range(64):
        infos.append(store.add(bytes([version]), version, 0, "tiny"))
        os.utime(store.path(infos[-1]), ns=(0, version * 10**9))
    kept = [info.version for info in infos if store.has(info)]
    gaps = [later - earlier for earlier, later in pairwise(kept[:-2])]
    assert kept[0] == 0
    assert kept[-2:] == [62, 63]
    assert len(kept) == 6
    assert min(gaps) >= 4


def test_the_newest_files_stay_when_the_clock_is_set_back(tmp_path: Path) -> None:
    """A client may still be reading them, however old they look."""
    store = WeightsStore(tmp_path, "chess", kept=2, past=4)
    infos = []
    for version in range(12):
        infos.append(store.add(bytes([version]), version, 0, "tiny"))
        time = version if version < 9 else version - 8
        os.utime(store.path(infos[-1]), ns=(0, time * 10**9))
    store.tidy()
    assert [info.version for info in infos if store.has(info)][-2:] == [10, 11]


def test_nothing_is_surplus_while_there_is_room() -> None:
    assert surplus([1, 2, 3], 3) == []
    assert surplus([1, 2, 30], 2) == [1]
    assert surplus([1, 2], 0) == [0, 1]
