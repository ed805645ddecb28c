"""The Kubernetes manifests: valid against the published schemas, and saying what the service needs."""

import re
import subprocess
from typing import Any

import pytest
import yaml
from starlette.routing import Route

from service.machine import SLACK, fitted
from service.main import create_app
from service.settings import Settings, variable
from tests.deploy.dockerfile import ROOT, build_and_final
from tests.deploy.sizes import taken
from tests.tools import program

_, FINAL = build_and_final()
FOLDER = ROOT / "deploy" / "kubernetes"
NAMES = ("deployment", "service", "ingress", "horizontal-pod-autoscaler", "pod-disruption-budget", "network-policy")


def manifest(name: str) -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load((FOLDER / f"{name}.yaml").read_text(encoding="utf-8"))
    return document


def test_every_manifest_is_listed() -> None:
    assert manifest("kustomization")["resources"] == [f"{name}.yaml" for name in NAMES]
    assert {path.stem for path in FOLDER.glob("*.yaml")} == {*NAMES, "kustomization"}


@pytest.mark.tool
@pytest.mark.parametrize("name", NAMES)
def test_it_is_valid_against_the_published_schema(name: str) -> None:
    command = [program("kubernetes-validate"), "--strict", str(FOLDER / f"{name}.yaml")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "passed for resource" in done.stdout + done.stderr


def test_everything_selects_the_pods_of_the_deployment() -> None:
    labels = manifest("deployment")["spec"]["template"]["metadata"]["labels"]
    assert manifest("deployment")["spec"]["selector"]["matchLabels"] == labels
    assert manifest("service")["spec"]["selector"] == labels
    assert manifest("pod-disruption-budget")["spec"]["selector"]["matchLabels"] == labels
    assert manifest("network-policy")["spec"]["podSelector"]["matchLabels"] == labels
    assert manifest("horizontal-pod-autoscaler")["spec"]["scaleTargetRef"]["name"] == "posenc"
    (rule,) = manifest("ingress")["spec"]["rules"]
    assert rule["http"]["paths"][0]["backend"]["service"]["name"] == manifest("service")["metadata"]["name"]


def test_the_pod_is_locked_down() -> None:
    pod = manifest("deployment")["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    user, _, group = FINAL.one("USER").value.partition(":")
    assert int(user) > 0 < int(group)
    assert (pod["securityContext"]["runAsUser"], pod["securityContext"]["runAsGroup"]) == (int(user), int(group))

    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod["automountServiceAccountToken"] is False
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert manifest("network-policy")["spec"]["egress"] == []
    assert "Egress" in manifest("network-policy")["spec"]["policyTypes"]


def test_probes_and_settings_are_the_services() -> None:
    pod = manifest("deployment")["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    paths = {name: container[f"{name}Probe"]["httpGet"]["path"] for name in ("startup", "liveness", "readiness")}
    assert paths == {"startup": "/health/live", "liveness": "/health/live", "readiness": "/health/ready"}
    assert container["ports"][0]["containerPort"] == Settings.model_fields["port"].default
    given = {each["name"]: each["value"] for each in container["env"]}
    known = {variable(name): name for name in Settings.model_fields}
    chosen = Settings.model_validate({known[name]: value for name, value in given.items()})
    limit = container["resources"]["limits"]["memory"]
    assert limit.endswith("Mi")
    bytes_limit = int(limit.removesuffix("Mi")) << 20
    assert taken(fitted(chosen, bytes_limit, 2)) <= SLACK * bytes_limit
    # In which it drains, too.
    assert chosen.drain_seconds < chosen.grace_seconds < pod["terminationGracePeriodSeconds"]


def routes() -> list[str]:
    """The addresses that the service has, with an x for what varies."""
    app = create_app(Settings())
    app.state.resources.close()
    return [re.sub(r"\{[^}]*\}", "x", route.path) for route in app.router.routes if isinstance(route, Route)]


def shown(path: str) -> bool:
    """Whether the Ingress passes a path on: a prefix goes by whole segments."""
    (rule,) = manifest("ingress")["spec"]["rules"]
    entries = {entry["path"]: entry["pathType"] for entry in rule["http"]["paths"]}
    exact = {each for each, kind in entries.items() if kind == "Exact"}
    prefixes = {each for each, kind in entries.items() if kind == "Prefix"}
    assert exact | prefixes == set(entries)
    return path in exact or any(f"{path}/".startswith(f"{each.rstrip('/')}/") for each in prefixes)


def test_the_ingress_shows_all_that_the_service_has_but_metrics_and_health() -> None:
    hidden = {"/metrics", "/health/live", "/health/ready"}
    assert {path for path in routes() if not shown(path)} == hidden
    assert not shown("/health")


def test_the_ingress_shows_nothing_that_the_service_has_not() -> None:
    (rule,) = manifest("ingress")["spec"]["rules"]
    known = routes()
    for entry in rule["http"]["paths"]:
        below = f"{entry['path']}/" if entry["pathType"] == "Prefix" else entry["path"]
        assert any(f"{path}/".startswith(below) for path in known), entry


def test_prometheus_finds_the_pods() -> None:
    annotations = manifest("deployment")["spec"]["template"]["metadata"]["annotations"]
    assert annotations["prometheus.io/path"] == "/metrics"
    assert annotations["prometheus.io/port"] == "8000"
