"""What packaging/ holds: systemd takes its unit, Kubernetes' manifest fits together, both know the exit codes."""

import configparser
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from bench import cluster_size

import onceflow as of
from onceflow import program
from onceflow.options.job_options import JobOptions
from onceflow.spark.versions import NEWEST

ROOT = Path(__file__).parents[3]
UNIT = ROOT / "packaging" / "onceflow@.service"
KUBERNETES = ROOT / "packaging" / "kubernetes"


def test_the_unit_goes_by_the_exit_codes():
    """SIGTERM to the driver alone, 75 is started again, an ended job has not failed, 1 and 2 are left for a person."""
    unit = configparser.ConfigParser(interpolation=None)
    unit.optionxform = str
    unit.read_string(UNIT.read_text())
    service = unit["Service"]
    assert service["KillMode"] == "mixed"
    assert service["RestartForceExitStatus"].split() == [str(program.TRY_AGAIN)]
    assert service["SuccessExitStatus"].split() == ["130", "143"]
    assert service["Restart"] == "on-abnormal", "exit codes are left alone, signals are not"
    assert int(service["TimeoutStopSec"]) > 10, "a job needs up to ten seconds"
    assert service["ExecStart"] == "/usr/bin/env onceflow run /etc/onceflow/%i.py"


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd here")
def test_systemd_takes_the_unit(tmp_path):
    """``systemd-analyze verify`` has nothing to say; of a line that is wrong it has."""

    def said(text):
        (tmp_path / UNIT.name).write_text(text)
        told = subprocess.run(
            ["systemd-analyze", "verify", str(tmp_path / UNIT.name)], capture_output=True, text=True, check=False
        )
        return told.returncode, [line for line in (told.stdout + told.stderr).splitlines() if UNIT.name in line]

    assert said(UNIT.read_text()) == (0, [])
    assert said(UNIT.read_text().replace("KillMode=mixed", "KillMode=often"))[1]


def parts_of_the_manifest():
    """Kubernetes' objects of the manifest, by kind."""
    found = list(yaml.safe_load_all((KUBERNETES / "job.yaml").read_text()))
    assert len({each["kind"] for each in found}) == len(found)
    return {each["kind"]: each for each in found}


def test_the_manifests_settings_are_taken(tmp_path, monkeypatch):
    """The file of settings in the ConfigMap is one, and its Spark settings name the manifest's own objects."""
    parts = parts_of_the_manifest()
    file = tmp_path / "settings.toml"
    file.write_text(parts["ConfigMap"]["data"]["settings.toml"])
    monkeypatch.setenv("ONCEFLOW_CONFIG", str(file))
    options = JobOptions(of.Checkpointing("elsewhere"), of.NoRestart()).under({})
    spark = options.spark
    driver = parts["Job"]["spec"]["template"]["spec"]["containers"][0]
    volume = "spark.kubernetes.executor.volumes.persistentVolumeClaim.checkpoint"
    claim = parts["PersistentVolumeClaim"]
    assert spark["spark.driver.host"] == parts["Service"]["metadata"]["name"]
    assert {p["name"]: str(p["port"]) for p in parts["Service"]["spec"]["ports"]} == {
        "driver": spark["spark.driver.port"],
        "blocks": spark["spark.driver.blockManager.port"],
    }
    assert spark["spark.kubernetes.container.image"] == driver["image"]
    assert (spark["spark.authenticate"], spark["spark.network.crypto.enabled"]) == ("true", "true")
    assert spark["spark.kubernetes.authenticate.serviceAccountName"] == parts["ServiceAccount"]["metadata"]["name"]
    assert spark[f"{volume}.options.claimName"] == claim["metadata"]["name"]
    assert claim["spec"]["accessModes"] == ["ReadWriteMany"]
    assert options.checkpointing.location.startswith(spark[f"{volume}.mount.path"] + "/")


def test_the_manifests_parts_fit_together():
    """The driver's pod is what the Service selects, mounts what is there, and its exit codes are ours."""
    parts = parts_of_the_manifest()
    job = parts["Job"]["spec"]
    pod, labels = job["template"]["spec"], job["template"]["metadata"]["labels"]
    driver = pod["containers"][0]
    assert parts["Service"]["spec"]["selector"].items() <= labels.items()
    assert pod["serviceAccountName"] == parts["ServiceAccount"]["metadata"]["name"]
    assert parts["RoleBinding"]["roleRef"]["name"] == parts["Role"]["metadata"]["name"]
    assert {mount["name"] for mount in driver["volumeMounts"]} == {volume["name"] for volume in pod["volumes"]}
    mounted = {mount["name"]: mount["mountPath"] for mount in driver["volumeMounts"]}
    assert driver["args"][:5] == ["onceflow", "run", "/job/job.py", "--config", f"{mounted['settings']}/settings.toml"]
    assert pod["restartPolicy"] == "Never", "a podFailurePolicy needs it"
    codes = {
        rule["onExitCodes"]["values"][0]: rule["action"]
        for rule in job["podFailurePolicy"]["rules"]
        if "onExitCodes" in rule
    }
    assert codes == {1: "FailJob", program.TRY_AGAIN: "Ignore"}
    image = (KUBERNETES / "Dockerfile").read_text()
    assert "COPY job.py /job/job.py" in image
    assert f"pyspark=={NEWEST}" in image
    assert f"apache/spark:{NEWEST} " in image


def test_the_manifest_lets_others_reach_nothing():
    """Only pods of the job reach its ports, which are the pod's own; no root, nothing to write but what is mounted."""
    parts = parts_of_the_manifest()
    pod = parts["Job"]["spec"]["template"]
    policy = parts["NetworkPolicy"]["spec"]
    settings = parts["ConfigMap"]["data"]["settings.toml"]
    mine = policy["podSelector"]["matchLabels"]
    ((name, value),) = mine.items()
    assert mine.items() <= pod["metadata"]["labels"].items()
    assert f'kubernetes.executor.label.{name} = "{value}"' in settings
    assert policy["ingress"] == [{"from": [{"podSelector": {"matchLabels": mine}}]}]
    driver = pod["spec"]["containers"][0]
    assert "spark.driver.bindAddress=$(POD_IP)" in driver["args"]
    assert "bindAddress" not in settings
    assert driver["securityContext"]["readOnlyRootFilesystem"]
    assert pod["spec"]["securityContext"]["runAsNonRoot"]
    assert f"USER {pod['spec']['securityContext']['runAsUser']}\n" in (KUBERNETES / "Dockerfile").read_text()
    mounted = {mount["name"]: mount["mountPath"] for mount in driver["volumeMounts"]}
    assert f'podTemplateFile = "{mounted["settings"]}/executor.yaml"' in settings
    executor = yaml.safe_load(parts["ConfigMap"]["data"]["executor.yaml"])["spec"]
    (container,) = executor["containers"]
    assert f'podTemplateContainerName = "{container["name"]}"' in settings
    assert executor["securityContext"] == pod["spec"]["securityContext"]
    assert container["securityContext"] == driver["securityContext"]
    assert {mount["name"] for mount in container["volumeMounts"]} == {each["name"] for each in executor["volumes"]}
    assert container["workingDir"] in {mount["mountPath"] for mount in container["volumeMounts"]}
    assert not executor["automountServiceAccountToken"]


def test_the_unit_leaves_nothing_to_others():
    """Files for the user alone, its own folders, no core with a password in it."""
    unit = configparser.ConfigParser(interpolation=None, strict=False)
    unit.optionxform = str
    unit.read_string(UNIT.read_text())
    service = unit["Service"]
    hard = {"NoNewPrivileges": "yes", "PrivateTmp": "yes", "ProtectSystem": "strict", "UMask": "0077", "LimitCORE": "0"}
    assert {name: service[name] for name in hard} == hard
    assert service["StateDirectoryMode"] == service["RuntimeDirectoryMode"] == "0700"
    assert f"ONCEFLOW_RUNTIME_DIR=/run/{service['RuntimeDirectory']}" in UNIT.read_text()


def test_the_model_of_a_large_cluster_is_the_one_on_the_page(capsys):
    """The table in docs/clusters.md is what ``bench.cluster_size`` prints now."""
    cluster_size.main()
    assert capsys.readouterr().out in (ROOT / "docs" / "clusters.md").read_text()
