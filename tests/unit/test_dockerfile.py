"""The Dockerfile agrees with the tree and with the pins; building it needs a network that tests do not have."""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet

ROOT = Path(__file__).parents[2]
INSTRUCTIONS = [
    line.split() for line in (ROOT / "Dockerfile").read_text().replace("\\\n", " ").splitlines() if line[:1].isalpha()
]


def _image() -> re.Match[str]:
    ((_, image),) = [words for words in INSTRUCTIONS if words[0] == "FROM"]
    match = re.fullmatch(r"apache/airflow:(?P<airflow>\d+\.\d+\.\d+)-python(?P<python>3\.\d+)", image)
    assert match, f"not the official image, pinned with its Python: {image}"
    return match


def _copies() -> list[tuple[str, str]]:
    return [
        (source, words[-1])
        for words in INSTRUCTIONS
        if words[0] in ("COPY", "ADD")
        for source in [word for word in words[1:-1] if not word.startswith("--")]
    ]


def test_everything_that_is_copied_exists() -> None:
    missing = [source for source, _ in _copies() if not (ROOT / source).exists()]

    assert missing == []


def test_every_part_of_the_product_is_copied_to_where_airflow_looks() -> None:
    assert dict(_copies()) == {
        "requirements.txt": "/opt/airflow/requirements.txt",
        "dags/": "/opt/airflow/dags/",
        "plugins/": "/opt/airflow/plugins/",
        "jobs/": "/opt/airflow/jobs/",
        "include/pipelines.yaml": "/opt/airflow/include/pipelines.yaml",
        "include/shardlake/": "/opt/airflow/include/shardlake/",
    }
    assert ["ENV", "PYTHONPATH=/opt/airflow/include"] in INSTRUCTIONS


def test_the_image_is_of_the_pinned_airflow() -> None:
    pinned = re.search(r"^apache-airflow==(.+)$", (ROOT / "requirements.txt").read_text(), re.MULTILINE)

    assert pinned
    assert _image()["airflow"] == pinned[1]


def test_the_images_python_is_the_one_that_the_pins_are_made_for() -> None:
    compiled = re.search(r"uv pip compile --universal --python-version (\S+)", (ROOT / "requirements.txt").read_text())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

    assert compiled
    assert _image()["python"] == compiled[1]
    assert f"{_image()['python']}.0" in SpecifierSet(project["requires-python"])


@pytest.mark.parametrize("name", ["requirements.txt", "requirements-dev.txt"])
def test_every_requirement_is_pinned(name: str) -> None:
    lines = [line for line in (ROOT / name).read_text().splitlines() if line and not line.lstrip().startswith("#")]

    assert [line for line in lines if not re.fullmatch(r"[a-z0-9._\[\],-]+==\S+( ;.*)?", line)] == []


def test_the_runtime_has_a_java_that_spark_runs_on() -> None:
    installed = [word for words in INSTRUCTIONS for word in words if "-jre" in word]

    assert installed == ["openjdk-17-jre-headless"]
