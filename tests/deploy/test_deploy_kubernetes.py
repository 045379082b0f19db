"""Checks the rendered manifests against the schemas of Kubernetes, and what the schemas cannot express."""

import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
from deploy_commands import container, documents, is_with_keys, parsed, pod_specs

from azselfplay.host.exits import NOT_RETRIED
from client.spool import MAX_BYTES

MANIFESTS = [pytest.param(one, id=f"{file}-{one['kind']}") for file, one in documents("kubernetes")]


@pytest.mark.parametrize("document", MANIFESTS)
def test_a_manifest_fits_its_schema(document: dict[str, Any]) -> None:
    version = kubernetes_validate.latest_version()
    kubernetes_validate.validate(document, version, strict=True)


@pytest.mark.parametrize("name", pod_specs())
def test_a_pod_passes_the_restricted_standard_and_writes_to_volumes_only(name: str) -> None:
    pod = pod_specs()[name]
    one = container(pod)
    assert pod["securityContext"]["runAsNonRoot"]
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    limits = {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True}
    assert one["securityContext"] == {**limits, "capabilities": {"drop": ["ALL"]}}
    mounts = {mount["mountPath"] for mount in one["volumeMounts"]}
    assert {word for word in one["args"] if word.startswith("/")} | {"/tmp"} <= mounts


@pytest.mark.parametrize("name", pod_specs())
def test_services_of_the_namespace_set_none_of_our_settings(name: str) -> None:
    assert pod_specs()[name]["enableServiceLinks"] is False


@pytest.mark.parametrize("name", pod_specs())
def test_probes_ask_where_the_program_answers(name: str) -> None:
    one = container(pod_specs()[name])
    settings = parsed(one["args"])
    ports = {port["name"]: port["containerPort"] for port in one["ports"]}
    assert (settings.metrics_port, settings.metrics_listen) == (ports["metrics"], "0.0.0.0")
    paths = {one[kind]["httpGet"]["path"] for kind in ("startupProbe", "livenessProbe")}
    assert paths == {"/livez"}
    assert one["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "metrics"}


@pytest.mark.parametrize("name", pod_specs())
def test_a_pod_has_its_keys_from_a_secret_that_its_group_may_read(name: str) -> None:
    pod = pod_specs()[name]
    one = container(pod)
    environment = {variable["name"]: variable.get("value", "secret") for variable in one["env"]}
    assert is_with_keys(one["args"], environment)
    (mounted,) = [mount["name"] for mount in one["volumeMounts"] if mount["mountPath"] == "/keys"]
    (volume,) = [volume["secret"] for volume in pod["volumes"] if volume["name"] == mounted]
    assert volume["defaultMode"] & 0o037 == 0  # `link.keys.read_pair` refuses what others may read
    for variable in one["env"]:
        if reference := variable.get("valueFrom", {}).get("secretKeyRef"):
            assert reference == {"name": volume["secretName"], "key": "server-key"}


def test_a_client_counts_its_workers_itself_and_its_volume_holds_all_their_spools() -> None:
    pod = pod_specs()["azclient"]
    one = container(pod)
    assert "AZ_WORKERS" not in [variable["name"] for variable in one["env"]]
    (size,) = [volume["emptyDir"]["sizeLimit"] for volume in pod["volumes"] if volume["name"] == "spool"]
    assert int(size.removesuffix("Gi")) * 2**30 > int(one["resources"]["limits"]["cpu"]) * MAX_BYTES


def test_the_job_ends_for_the_codes_that_would_come_again_and_outlives_a_drained_node() -> None:
    job = next(one for _, one in documents("kubernetes") if one["kind"] == "Job")
    final, ignored = job["spec"]["podFailurePolicy"]["rules"]
    assert final["action"] == "FailJob"
    assert set(final["onExitCodes"]["values"]) == NOT_RETRIED
    assert final["onExitCodes"]["containerName"] == container(pod_specs()["trainer"])["name"]
    assert ignored["action"] == "Ignore"


def run_trainer_with(tmp_path: Path, script: str) -> subprocess.Popen[bytes]:
    """Run the Job's command line, with `script` instead of python."""
    stand_in = tmp_path / "python"
    stand_in.write_text(f"#!/bin/sh\n{script}\n")
    stand_in.chmod(0o755)
    trainer = container(pod_specs()["trainer"])
    path = f"{tmp_path}:{os.environ['PATH']}"
    return subprocess.Popen([*trainer["command"], *trainer["args"]], env={"PATH": path})


@pytest.mark.parametrize(("ended", "reported"), [(0, 75), (78, 78), (70, 70)])
def test_the_job_sees_the_trainers_own_code_but_never_that_all_is_done(
    ended: int, reported: int, tmp_path: Path
) -> None:
    assert run_trainer_with(tmp_path, f"exit {ended}").wait(timeout=60) == reported


def test_the_trainer_is_told_of_a_stop_and_waited_for(tmp_path: Path) -> None:
    ready, told = tmp_path / "ready", tmp_path / "told"
    os.mkfifo(ready)
    script = f"trap 'echo told > {told}; exit 0' TERM\necho > {ready}\nwhile :; do sleep 0.1; done"
    job = run_trainer_with(tmp_path, script)
    ready.read_bytes()
    job.send_signal(signal.SIGTERM)
    assert job.wait(timeout=60) == 75
    assert told.read_text() == "told\n"
